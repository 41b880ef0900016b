# SPDX-License-Identifier: Apache-2.0
"""The whole state of an object of any class: its arrays, each by a name, and a digest of all else.

What the state is says the class itself, by the protocol of pickle (`__reduce_ex__`): so slots,
subclasses of containers and objects of Cython are read whole. A class that gives pickle less than
it holds is asked for its attributes as well. What cannot be read so is told (`missed`), never passed
over: who compares two such states must know it.

Two objects have the same digest when they have the same classes, values and order, in any process.
Nothing is kept of what was read.
"""

import copyreg
import ctypes
import hashlib
import sys
import types
from array import array as numbers_of

from . import code_reads, faults

NAMES = 2048  # arrays that get a record of their own; the contents of more go into the digest
DEPTH = 60  # of objects in objects, some four frames of Python each

# Classes of these give pickle all that they are; what else they hold are caches and handles.
_WHOLE = {"numpy", "pandas", "scipy", "sklearn", "xgboost", "lightgbm", "builtins", "joblib"}

# What says nothing about what an object is: when a cache was made, the address of a list.
_NO_STATE = {
    ("joblib.memory", "Memory"): (".timestamp",),
    ("sklearn.feature_extraction.text", "CountVectorizer"): ("._stop_words_id",),
}

_readers = {}  # (module, name) of a class -> function that gives [(suffix, value)]


def read_by(module, name, reader):
    """Objects of this class and its heirs are read by `reader(thing)`, which gives [(suffix,
    value)], or raises Missing.
    """
    _readers[module, name] = reader


class Own(bytes):
    """What a reader gives of an object that is to have a record of its own, under its name: a tree
    of a booster. Who does not ask for such parts finds them in the digest of the whole.
    """


class Missing(Exception):
    """What a reader raises: why an object was not looked at."""


def hashed(*parts):
    """A digest of byte strings, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def _text(value):
    return b"s" + value.encode("utf-8", "surrogatepass")


def _float(value):
    return b"f" + bytes(numbers_of("d", (value,)))


_SCALARS = {
    type(None): lambda value: b"n",
    bool: lambda value: b"b%d" % value,
    int: lambda value: b"i%x" % value if value >= 0 else b"i-%x" % -value,
    float: _float,
    complex: lambda value: b"c" + bytes(numbers_of("d", (value.real, value.imag))),
    str: _text,
    bytes: lambda value: b"y" + value,
    bytearray: lambda value: b"Y" + bytes(value),
    type(Ellipsis): lambda value: b"...",
    type(NotImplemented): lambda value: b"ni",
    range: lambda value: b"r" + repr(value).encode(),
}


def _global_name(thing):
    """The name by which pickle finds a class or function."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", "")
    return b"g" + ("%s.%s" % (getattr(thing, "__module__", ""), name)).encode("utf-8", "replace")


def _numpy():
    return sys.modules.get("numpy")


def slots_of(thing):
    """(name, value) of the slots that classes written in Python have set in an object."""
    for cls in type(thing).__mro__:
        for name in sorted(vars(cls)) if "__slots__" in vars(cls) else ():
            slot = vars(cls)[name]
            if type(slot) is types.MemberDescriptorType:
                try:
                    yield name, slot.__get__(thing)
                except AttributeError:
                    continue  # not set


def attributes_of(thing):
    """(name, value) of everything that an object of a class written in Python holds."""
    try:
        inside = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        inside = {}
    found = dict(inside) if isinstance(inside, dict) else {}
    found.update(slots_of(thing))
    return sorted(found.items(), key=lambda item: str(item[0]))


def _is_estimator(thing):
    base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
    return base is not None and isinstance(thing, base)


def _says_less(cls):
    """Whether a class may give pickle less than its attributes: it, or a class of the library that
    it is made from, says itself what its state is.
    """
    if (cls.__module__ or "").partition(".")[0] in _WHOLE:
        return False
    base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
    usual = [getattr(object, "__getstate__", None), getattr(base, "__getstate__", None)]
    return (
        cls.__reduce_ex__ is not object.__reduce_ex__
        or cls.__reduce__ is not object.__reduce__
        or getattr(cls, "__getstate__", None) not in usual
        or cls in copyreg.dispatch_table
    )


class Look:
    """One look at some objects. `arrays`: (name, array) in order; `own`: (name, bytes), where they
    are asked for; `missed`: (name, why); `code`: functions and classes of the job.
    """

    def __init__(self, own=False):
        self.arrays, self.missed, self.code = [], [], []
        self.own = [] if own else None
        self._known = {}  # id -> what stands for the object
        self._held = []  # so that no two objects of this look have one id
        self._inside = 0  # of a set, whose elements have no names
        self._depth = 0

    def value(self, value, name):
        """Bytes that stand for a value; its arrays are put beside them."""
        plain = _SCALARS.get(type(value))
        if plain is not None:
            return plain(value)
        known = self._known.get(id(value))
        if known is not None:
            return known if type(known) is bytes else b"^%d" % (self._depth - known)
        if self._depth >= DEPTH:
            return self._miss(name, "objects more than %d deep" % DEPTH)
        self._held.append(value)
        self._known[id(value)] = self._depth
        self._depth += 1
        try:
            found = self._object(value, name)
        finally:
            self._depth -= 1
        self._known[id(value)] = found
        return found

    def _miss(self, name, why):
        self.missed.append((name, why))
        return b"!"

    def _object(self, value, name):
        cls = type(value)
        if cls is Own:
            return self._own(value, name)
        if cls in (list, tuple):
            return self._sequence(value, cls, name)
        if cls is dict:
            return self._dictionary(value, name)
        if cls in (set, frozenset):
            return self._set(value, cls, name)
        special = _SPECIAL.get(cls)
        if special is not None:
            return special(self, value, name)
        if isinstance(value, type):
            return self._class(value, name)
        numpy = _numpy()
        if numpy is not None:
            if cls is numpy.ndarray:
                return self._array(numpy, value, name)
            if isinstance(value, numpy.generic):
                array = numpy.asarray(value)
                return hashed(b"generic", _global_name(cls), self._contents(numpy, array, name))
            if isinstance(value, numpy.ufunc):
                return self._ufunc(value, name)
        return self._by_pickle(value, name)

    def _own(self, value, name):
        if self.own is None or self._inside or len(self.own) >= NAMES:
            return hashed(b"own", value)
        self.own.append((name, value))
        return b"own"

    # ------------------------------------------------------------ containers

    def _sequence(self, value, cls, name):
        head = cls.__name__.encode()
        kinds = set(map(type, value))
        if len(value) > 8 and len(kinds) == 1:
            (kind,) = kinds
            if kind is float:
                return hashed(head, b"floats", bytes(numbers_of("d", value)))
            if kind is str:
                lengths = bytes(numbers_of("q", map(len, value)))
                return hashed(head, b"texts", lengths, _text("".join(value)))
        if kinds and kinds <= _SCALARS.keys():
            return hashed(head, *[_SCALARS[type(inner)](inner) for inner in value])
        parts = [self.value(inner, "%s[%d]" % (name, i)) for i, inner in enumerate(value)]
        return hashed(head, *parts)

    def _dictionary(self, value, name):
        parts = []
        for key, inner in value.items():
            shown = repr(key) if type(key) in _SCALARS else type(key).__name__
            parts += [self.value(key, name + "[key]"), self.value(inner, "%s[%s]" % (name, shown))]
        return hashed(b"dict", *parts)

    def _set(self, value, cls, name):
        """A set has no order: what stands for its elements is sorted."""
        self._inside += 1
        try:
            parts = sorted(self.value(inner, name + "[element]") for inner in value)
        finally:
            self._inside -= 1
        return hashed(cls.__name__.encode(), *parts)

    # ------------------------------------------------------------ arrays

    def _array(self, numpy, value, name):
        """Its type and shape; its contents by a record of their own, where it may have one."""
        kind = value.dtype
        told = repr(kind.descr) if kind.names else kind.str
        head = hashed(b"array", told.encode(), repr(value.shape).encode())
        if kind.names:
            fields = [
                self._array(numpy, numpy.ascontiguousarray(value[field]), "%s.%s" % (name, field))
                for field in kind.names
            ]
            return hashed(head, *fields)
        if self._inside or len(self.arrays) >= NAMES or kind.kind not in "biufc":
            return hashed(head, self._contents(numpy, value, name))
        if kind.itemsize > 8 * (1 + (kind.kind == "c")) or not kind.isnative:
            return hashed(head, self._contents(numpy, value, name))
        if min(value.strides, default=1) < 0:
            value = numpy.ascontiguousarray(value)
        self.arrays.append((name, value))
        return head

    def _contents(self, numpy, value, name):
        """What stands for the elements."""
        kind = value.dtype
        if kind.kind in "OT":
            return self._sequence(value.ravel().tolist(), list, name)
        if kind.names:
            return hashed(*[self._contents(numpy, value[field], name) for field in kind.names])
        if kind.kind == "c" and kind.itemsize > 16:
            return self._long(numpy, value.real) + self._long(numpy, value.imag)
        if kind.kind == "f" and kind.itemsize > 8:
            return self._long(numpy, value)
        if kind.kind == "V" and kind.subdtype is None and kind.hasobject:
            return self._miss(name, "an array of %s" % kind)
        return hashed(numpy.ascontiguousarray(value).tobytes())

    @staticmethod
    def _long(numpy, value):
        """Numbers longer than a double have bytes that are never written: they are taken as the sum
        of two doubles.
        """
        with numpy.errstate(all="ignore"):
            high = value.astype(numpy.float64)
            low = (value - high).astype(numpy.float64)
        return hashed(high.tobytes(), low.tobytes())

    # ------------------------------------------------------------ classes and functions

    def _class(self, value, name):
        """A library's by its name; the job's with its methods and variables, which are state as an
        object's attributes are.
        """
        if not code_reads.of_job(value):
            return _global_name(value)
        self.code.append(value)
        parts = []
        for key, inner in sorted(vars(value).items()):
            inner = getattr(inner, "__func__", inner)
            if not isinstance(inner, types.FunctionType):
                if hasattr(type(inner), "__get__") or type(inner).__module__ == "_abc":
                    continue
                if key.startswith("__") and key.endswith("__"):
                    continue  # Python's own, `__doc__` for one
            parts += [key.encode(), self.value(inner, "%s.%s" % (name, key))]
        bases = [self.value(base, name) for base in value.__bases__]
        return hashed(b"class", _global_name(value), *bases, *parts)

    def _ufunc(self, value, name):
        for module in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(module), value.__name__, None) is value:
                return b"u" + value.__name__.encode()
        return self._miss(name, "a ufunc that is none of NumPy's")

    def _function(self, value, name):
        self.code.append(value)
        cells = []
        for cell in value.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:
                cells.append(NotImplemented)  # not filled yet
        return hashed(
            b"function",
            _global_name(value),
            self._code(value.__code__, name),
            self.value(value.__defaults__, name + ".__defaults__"),
            self.value(value.__kwdefaults__, name + ".__kwdefaults__"),
            self.value(cells, name + ".__closure__"),
            self.value(value.__dict__, name),
        )

    def _code(self, code, name):
        parts = [
            self._code(c, name) if isinstance(c, types.CodeType) else self.value(c, name)
            for c in code.co_consts
        ]
        names = "\0".join((*code.co_names, "", *code.co_varnames, "", *code.co_freevars))
        return hashed(b"code", code.co_code, names.encode("utf-8", "replace"), *parts)

    def _method(self, value, name):
        function, owner = value.__func__, value.__self__
        return hashed(b"method", self.value(function, name), self.value(owner, name + ".__self__"))

    def _builtin(self, value, name):
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return _global_name(value)
        return hashed(_global_name(value), self.value(owner, name + ".__self__"))

    # ------------------------------------------------------------ everything else

    def _by_pickle(self, value, name):
        try:
            parts, inner = members(value)
        except Missing as missing:
            return self._miss(name, str(missing))
        parts = [self.value(part, name) for part in parts]
        for suffix, member in inner:
            parts += [suffix.encode("utf-8", "replace"), self.value(member, name + suffix)]
        return hashed(b"object", *parts)


_SPECIAL = {
    types.FunctionType: Look._function,
    types.MethodType: Look._method,
    types.BuiltinFunctionType: Look._builtin,
    types.CodeType: Look._code,
    types.ModuleType: lambda look, value, name: b"m" + value.__name__.encode(),
    types.MappingProxyType: lambda look, value, name: look.value(dict(value), name),
    property: lambda look, value, name: look.value([value.fget, value.fset, value.fdel], name),
    memoryview: lambda look, value, name: b"v" + value.tobytes(),
}
for _kind in ("WrapperDescriptorType", "MethodDescriptorType", "GetSetDescriptorType"):
    _SPECIAL[getattr(types, _kind)] = lambda look, value, name: _global_name(value)
_SPECIAL[types.MethodWrapperType] = lambda look, value, name: hashed(
    value.__name__.encode(), look.value(value.__self__, name)
)


def _reader_of(cls):
    for base in cls.__mro__ if _readers else ():
        found = _readers.get((base.__module__, base.__name__))
        if found is not None:
            return found
    return None


def _reduced(thing):
    """What pickle is given of an object; None: all of it stands in its attributes."""
    reduce = copyreg.dispatch_table.get(type(thing))
    try:
        return thing.__reduce_ex__(4) if reduce is None else reduce(thing)
    except Exception as error:
        faults.pass_on(error)
        if _is_estimator(thing):  # scikit-learn refuses slots
            return None
        if isinstance(thing, ctypes._SimpleCData) and not isinstance(thing, ctypes.c_void_p):
            return (type(thing), (thing.value,))
        raise Missing("a %s" % _class_name(thing))


def _class_name(thing):
    cls = type(thing)
    where = (cls.__module__ or "").partition(".")[0]
    return (
        cls.__qualname__
        if where in ("builtins", "__main__")
        else "%s.%s"
        % (
            cls.__module__,
            cls.__qualname__,
        )
    )


def _is_at(module, name, thing):
    """Whether a name leads to this object, so that it stands for all that the object is."""
    found = sys.modules.get(module) if module else thing
    for part in name.split(".") if module else ():
        found = getattr(found, part, None)
    return found is thing


def members(thing):
    """(what says how the object is made, [(suffix, value)] of what it holds)."""
    cls = type(thing)
    reader = _reader_of(cls)
    if reader is not None:
        return (cls,), reader(thing)
    reduced = _reduced(thing)
    if reduced is None:
        return (cls,), _named(attributes_of(thing))
    if isinstance(reduced, str):
        wrapped = getattr(thing, "__wrapped__", None)  # a function with a cache
        if isinstance(wrapped, types.FunctionType):
            return (cls, reduced), [(".__wrapped__", wrapped)]
        if not _is_at(getattr(thing, "__module__", None), reduced, thing):
            raise Missing("a %s" % _class_name(thing))
        return (cls, reduced), []
    if type(reduced) is not tuple or not 2 <= len(reduced) <= 6:
        raise Missing("a %s, whose __reduce__ gives no state" % _class_name(thing))
    make, given, state, items, pairs = (*reduced, None, None, None, None)[:5]
    found = _of_state(state)
    found += [("[%d]" % i, item) for i, item in enumerate(items or ())]
    for key, item in pairs or ():
        shown = repr(key) if type(key) in _SCALARS else type(key).__name__
        found += [("[key]", key), ("[%s]" % shown, item)]
    if _says_less(cls):
        given_out = dict(found)
        for name, value in _named(attributes_of(thing)):
            if name not in given_out or given_out[name] is not value:
                found.append((name, value))
    hidden = {
        name for base in cls.__mro__ for name in _NO_STATE.get((base.__module__, base.__name__), ())
    }
    return (cls, make, given), [item for item in found if item[0] not in hidden]


def _of_state(state):
    if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
        if state[0] is None or type(state[0]) is dict:
            state = {**(state[0] or {}), **state[1]}
    if type(state) is dict:
        return _named(sorted(state.items(), key=lambda item: str(item[0])))
    return [] if state is None else [(".state", state)]


def _named(items):
    return [("." + str(name), value) for name, value in items]


def _without_times(results):
    """A search's results without how long each fit took."""
    return {k: v for k, v in results.items() if not str(k).endswith(("_fit_time", "_score_time"))}


def of_search(thing):
    """The state of a search of scikit-learn (GridSearchCV and its kin)."""
    return [
        (name, _without_times(value) if name == ".cv_results_" and type(value) is dict else value)
        for name, value in _named(attributes_of(thing))
        if name != ".refit_time_"
    ]


read_by("sklearn.model_selection._search", "BaseSearchCV", of_search)
