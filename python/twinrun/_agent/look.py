# SPDX-License-Identifier: Apache-2.0
"""One look at what variables hold: arrays, tables and sparse matrices by name, generators, plain
values of Python, and what could not be seen.

Nothing here calls code of the job: attributes are read from `__dict__` and slots, and only types of
NumPy, pandas and SciPy themselves are asked for their contents.
"""

import collections
import gc
import sys
import types
from array import array as numbers_of

from . import buffers, nested
from .fitted import slots_of

LEAVES = 4096
DEPTH = 8
VALUES = 1 << 20  # plain values that are looked at for one variable
MOST_COPIED = 1 << 28  # bytes of an array that is read through a copy
MOST_OBJECTS = 1 << 20  # elements of an array of Python objects
MOST_REACHED = 1 << 16  # objects that are gone through for what one object of Python's own holds

_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_SPARSE = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
    "dia": ("data", "offsets"),
}
# of these nothing is asked: what they draw is compared where it is written
_PICTURES = ("matplotlib", "mpl_toolkits", "seaborn", "PIL")
# what these are taught is seen by their fits (fits.py)
_FITTED = ("sklearn", "xgboost", "lightgbm", "imblearn", "catboost")
_LIBRARY = getattr(sys, "stdlib_module_names", ("builtins", "pathlib", "argparse", "time"))
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)
_NAMESPACES = {("types", "SimpleNamespace"), ("argparse", "Namespace")}
_HIDING = ("_local", "ContextVar")  # of these nobody is told what they hold


computed = []  # the name of the first array or number with a point that any look has found


def _computed(name):
    if not computed:
        computed.append(name)


class Look:
    """What was found: arrays by name, in the order of the variables, and what stayed unseen.

    own(name of a module): whether its classes and functions are the job's.
    """

    def __init__(self, numpy, own):
        self.numpy, self.own = numpy, own
        self.pandas, self.sparse = sys.modules.get("pandas"), sys.modules.get("scipy.sparse")
        self.scope = ""
        self.arrays, self.states = [], []  # (scope, name, array or bytes; None: cannot be read)
        self.unseen = []
        self.visited = {}  # id -> object: kept, so that no id comes twice
        self.holders = []  # (name, object of Python's own library, which may hold anything)
        self.plain = None  # plain values of the variable that is looked at; None: not wanted
        self.left_out = ()  # attributes and keys whose plain values follow the clock

    def missed(self, text):
        if text not in self.unseen:
            self.unseen.append(text)

    def add(self, name, array):
        if len(self.arrays) < LEAVES:
            self.arrays.append((self.scope, name, array))
        else:
            self.missed("arrays beyond the first %d that the script's variables hold" % LEAVES)

    # ------------------------------------------------------------ one value

    def variable(self, name, value):
        """One variable, with its plain values, as a record of its own."""
        kind = type(value)
        if kind is float:
            _computed(name)
            return self.add(name, buffers.Own("d", (value,)))
        if kind in _PLAIN:
            return None if value is None else self.add(name, nested.plain_bytes((value,)))
        self.plain = []
        self.walk(name, value)
        found, self.plain = self.plain, None
        if any(type(value) is float for value in found):
            _computed(name)
        if len(found) == 1 and type(found[0]) is float:
            self.add(name, buffers.Own("d", found))
        elif found and any(value is not None for value in found):
            self.add(name, nested.plain_bytes(found))

    def walk(self, name, value, depth=0):
        kind = type(value)
        if kind in _PLAIN:
            if self.plain is not None:
                self.plain_value(name, value)
            return
        if issubclass(kind, self.numpy.generic):
            self.array(name, self.numpy.asarray(value))
            return
        if id(value) in self.visited:
            return
        self.visited[id(value)] = value
        if depth > DEPTH:
            self.missed("what %s holds: nested too deep" % name)
        elif issubclass(kind, self.numpy.ndarray):
            self.array(name, value)
            self.beside(name, kind, value, depth)
        elif kind is numbers_of or issubclass(kind, (bytearray, memoryview)):
            self.add(name, value)
        elif issubclass(kind, _CONTAINERS):
            self.container(name, value, depth)
            self.beside(name, kind, value, depth)
        elif not (self.generator(name, value) or self.table(name, value, depth)):
            self.other(name, value, depth)

    def beside(self, name, kind, value, depth):
        """The attributes that a class of the job adds to an array or a container."""
        if kind.__module__ not in ("numpy", "builtins") and self.own(kind.__module__):
            self.object(name, value, depth)

    def plain_value(self, name, value):
        if len(self.plain) < VALUES:
            self.plain.append(value)
        else:
            self.missed("numbers and texts in %s beyond the first %d" % (name, VALUES))

    def container(self, name, value, depth):
        if issubclass(type(value), (set, frozenset)):
            # no array can be in one; its order may follow the hash seed
            plain = set if issubclass(type(value), set) else frozenset
            inside = [_text_of(v) for v in plain.__iter__(value)]
            if None in inside:
                self.missed("the set %s" % name)
            elif self.plain is not None:
                self.plain_value(name, "set of %d" % len(inside))
                self.plain.extend(sorted(inside))
        elif issubclass(type(value), dict):
            if self.plain is not None:
                self.plain_value(name, "dict of %d" % dict.__len__(value))
            for key, inner in list(dict.items(value)):
                if type(key) is str and key in self.left_out and type(inner) in _PLAIN:
                    continue
                text = self.key(name, key)
                if self.plain is not None:
                    self.plain_value(name, text)
                self.walk("%s[%s]" % (name, text), inner, depth + 1)
        else:
            # as the type itself does: a class of the job may say otherwise
            plain = next(t for t in (list, tuple, collections.deque) if issubclass(type(value), t))
            if self.plain is not None:
                self.plain_value(name, "%s of %d" % (plain.__name__, plain.__len__(value)))
            if plain.__len__(value) > 8 and self.numbers(name, list(plain.__iter__(value))):
                return
            for i, inner in enumerate(plain.__iter__(value)):
                self.walk("%s[%d]" % (name, i), inner, depth + 1)

    def key(self, name, key):
        """A key or label as text; of one whose value cannot be read the type, and that is told."""
        if type(key) in _PLAIN:
            return repr(key) if type(key) is not int else "%s" % nested.plain_text(key)
        text = _text_of(key)
        if text is None:
            self.missed("a key of %s (%s)" % (name, type(key).__name__))
            return type(key).__name__
        return text

    def numbers(self, name, values):
        """A long list of nothing but plain values: numbers of one type are an array."""
        kinds = set(map(type, values))
        if kinds == {float}:
            if self.plain is not None:
                _computed(name)
                self.add(name, buffers.Own("d", values))
            return True
        if kinds <= set(_PLAIN):
            if self.plain is not None:
                self.plain_value(name, nested.plain_bytes(values))
            return True
        return False

    def other(self, name, value, depth):
        """An object of the script's own class is looked into; one of a library is told as unseen,
        where it could hold an array.
        """
        kind = type(value)
        module = getattr(kind, "__module__", "") or ""
        package = module.partition(".")[0]
        if issubclass(kind, type):
            if self.own(vars(value).get("__module__")):
                self.members(name, vars(value), depth)
        elif issubclass(kind, types.ModuleType):
            if sys.modules.get(vars(value).get("__name__")) is not value:
                self.missed("what the module %s holds, which was not imported by its name" % name)
        elif _is_c_data(value):
            self.missed("what %s (%s) holds" % (name, kind.__name__))
        elif self.own(module) or (module, kind.__name__) in _NAMESPACES:
            self.object(name, value, depth)
        elif kind is types.FunctionType and self.own(value.__module__):
            self.function(name, value, depth)
        elif _is_of_python(value, package):
            self.holders.append((name, value))
        elif not _harmless(value, package):
            self.missed("what %s (%s.%s) holds" % (name, module, kind.__name__))

    def object(self, name, value, depth):
        """What an object of a class of the job holds, in `__dict__` and in slots."""
        for key, part in slots_of(value):
            self.member(name, key, part, depth)
        try:
            inner = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        self.members(name, inner, depth)

    def function(self, name, value, depth):
        """What a function of the job carries with it: its closure, defaults and attributes."""
        self.walk(name, value.__defaults__, depth + 1)
        self.walk(name, value.__kwdefaults__, depth + 1)
        for key, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                self.member(name, key, cell.cell_contents, depth)
            except ValueError:
                pass  # not filled yet
        self.members(name, value.__dict__, depth)

    def members(self, name, inner, depth):
        for key, part in list(inner.items()):
            if not is_pythons_name(key):
                self.member(name, key, part, depth)

    def member(self, name, key, part, depth):
        if key in self.left_out and type(part) in _PLAIN:
            return
        self.walk("%s.%s" % (name, key), part, depth + 1)

    def look_into_holders(self):
        """Queues, iterators, generators, partial functions, closures and their like: who holds
        something that no variable has shown is told. Their contents have no names, and some can be
        read only once, so they are not recorded.
        """
        if not self.holders:
            return
        modules = [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
        ours = {id(vars(module)) for module in modules}
        for name, value in self.holders:
            if self.reaches(value, ours):
                self.missed("what %s (%s) holds" % (name, type(value).__name__))

    def reaches(self, value, ours):
        """Whether an object holds, at whatever distance, one that may be or have an array and that
        was not looked at.
        """
        seen, waiting = {id(value)}, [value]
        for holder in waiting:
            if len(waiting) > MOST_REACHED or type(holder).__name__ in _HIDING:
                return True
            for part in self.parts(holder):
                if id(part) in seen or id(part) in ours or id(part) in self.visited:
                    continue
                seen.add(id(part))
                if type(part) in _PLAIN or issubclass(type(part), (type, types.ModuleType)):
                    continue
                package = (type(part).__module__ or "").partition(".")[0]
                if _is_of_python(part, package):
                    waiting.append(part)
                elif not _harmless(part, package):
                    return True
        return False

    def parts(self, holder):
        """What an object refers to; of a function what is its own, not its globals, and nothing of
        a library's function.
        """
        if type(holder) is not types.FunctionType:
            return gc.get_referents(holder)
        if not self.own(holder.__module__):
            return []
        own = (holder.__closure__, holder.__defaults__, holder.__kwdefaults__, holder.__dict__)
        return gc.get_referents(*filter(None, own))

    # ------------------------------------------------------------ arrays

    def array(self, name, array):
        _computed(name)
        numpy = self.numpy
        masked = sys.modules.get("numpy.ma")
        if masked is not None and issubclass(type(array), masked.MaskedArray):
            self.array(name + ".mask", masked.getmaskarray(array))
            array = masked.getdata(array)
        array = numpy.ndarray.view(array, numpy.ndarray)
        if array.dtype.names:
            for field in array.dtype.names:
                self.array("%s[%r]" % (name, field), array[field])
            return
        self.add(name, self.readable(array))

    def readable(self, array):
        """The array, or one or several bytes of the same meaning; None where there are none."""
        numpy, letter = self.numpy, array.dtype.kind
        if letter == "O":
            return self.objects(array)
        if letter in "mMSUV" or array.dtype.char in "gG" or not array.dtype.isnative:
            if array.nbytes > MOST_COPIED:
                return None
            if letter in "mM":
                unit = repr(array.dtype).encode()
                return unit + array.astype(array.dtype.newbyteorder("=")).tobytes()
            if array.dtype.char in "gG":
                # bytes of padding are not part of the number; its words are
                return self.objects(array.astype(object)) if array.size < MOST_OBJECTS else None
            if letter == "V":
                return None
            return array.astype(array.dtype.newbyteorder("="), copy=True).tobytes() + (
                repr((array.dtype.newbyteorder("="), array.shape)).encode()
            )
        return array if isinstance(array, numpy.ndarray) else None

    def objects(self, array):
        if array.size > MOST_OBJECTS:
            return None
        flat = array.ravel().tolist()
        kinds = set(map(type, flat))
        if kinds == {str}:
            lengths = bytes(numbers_of("q", map(len, flat)))
            text = "".join(flat).encode("utf-8", "surrogatepass")
            return repr(array.shape).encode() + lengths + text
        if not all(type(value) in _PLAIN or _is_stamp(type(value)) for value in flat):
            return None
        return nested.plain_bytes([array.shape, *flat])

    # ------------------------------------------------------------ tables, sparse matrices

    def table(self, name, value, depth):
        pandas, kind = self.pandas, type(value)
        if pandas is not None and kind is pandas.DataFrame:
            self.walk(name + ".attrs", value.attrs, depth + 1)
            self.index(name + ".columns", value.columns)
            self.index(name + ".index", value.index)
            for i, label in enumerate(value.columns.tolist()):
                self.column("%s[%s]" % (name, self.key(name, label)), value.iloc[:, i])
            return True
        if pandas is not None and kind is pandas.Series:
            self.walk(name + ".attrs", value.attrs, depth + 1)
            self.index(name + ".index", value.index)
            self.column(name, value)
            return True
        if pandas is not None and issubclass(kind, pandas.Index):
            self.index(name, value)
            return True
        its = self.sparse is not None and (kind.__module__ or "").startswith("scipy.sparse")
        if its and getattr(kind, "format", None) is not None:
            parts = _SPARSE.get(value.format)
            if parts is None:
                self.missed("the sparse matrix %s (%s)" % (name, kind.__name__))
                return True
            self.add(name + ".shape", repr(value.shape).encode())
            for part in parts:
                self.array("%s.%s" % (name, part), getattr(value, part))
            return True
        return False

    def column(self, name, series):
        dtype = series.dtype
        if isinstance(dtype, self.numpy.dtype):
            self.array(name, series.to_numpy())
        else:
            self.add(name + ".dtype", str(dtype).encode())
            if isinstance(dtype, self.pandas.CategoricalDtype):
                self.index(name + ".categories", dtype.categories)
            self.array(name, series.to_numpy(dtype=object))

    def index(self, name, index):
        if type(index) is self.pandas.RangeIndex:
            found = repr((index.start, index.stop, index.step)).encode()
        else:
            found = self.objects(index.to_numpy(dtype=object))
        names = [*index.names]  # as labels are
        self.add(name, found and found + (nested.plain_bytes(names) if any(names) else b""))

    # ------------------------------------------------------------ generators

    def generator(self, name, value):
        random, module = sys.modules.get("numpy.random"), sys.modules.get("random")
        if random is not None and issubclass(type(value), random.Generator):
            self.state(name, random.Generator.bit_generator.__get__(value).state)
        elif (
            random is not None
            and issubclass(type(value), random.BitGenerator)
            and type(value).__module__.startswith("numpy.")
        ):
            self.state(name, value.state)
        elif random is not None and type(value) is random.RandomState:
            self.state(name, value.get_state(legacy=False))
        elif module is not None and type(value) is module.Random:
            self.state(name, value.getstate())
        else:
            return False
        return True

    def state(self, name, state):
        _computed(name)
        self.states.append((self.scope, name, nested.plain_bytes(_flat(state))))


def _text_of(value):
    """A text that is equal for equal values: of a plain one, of NumPy's, of a tuple or frozen set
    of such, of a function or class by its name; None for another, of which nothing is asked.
    """
    kind = type(value)
    if kind in _PLAIN:
        return "%s:%s" % (kind.__name__, nested.plain_text(value))
    if kind is tuple or kind is frozenset:
        parts = [_text_of(part) for part in value]
        if None in parts:
            return None
        return "(%s)" % ",".join(parts) if kind is tuple else "{%s}" % ",".join(sorted(parts))
    if kind in (type, types.FunctionType):
        return "%s %s" % (kind.__name__, value.__qualname__)
    if _is_stamp(kind):
        return "%s:%r" % (kind.__name__, value)
    return None


def _is_stamp(kind):
    """Numbers and times of NumPy, pandas and Python's library, whose `repr` says all of them."""
    package = kind.__module__.partition(".")[0]
    if package == "numpy":
        return issubclass(kind, sys.modules["numpy"].generic) and not kind.__name__ == "void"
    stamps = ("Timestamp", "Timedelta", "NaTType", "NAType", "Period", "Interval")
    if package == "pandas":
        return kind.__name__ in stamps
    return (kind.__module__, kind.__name__) in (
        ("decimal", "Decimal"),
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("pathlib", "PosixPath"),
    )


def _flat(state):
    """The plain values of a generator's state, in order."""
    if isinstance(state, dict):
        return [x for key in sorted(state) for x in [key, *_flat(state[key])]]
    if isinstance(state, (list, tuple)):
        return [x for part in state for x in _flat(part)]
    return _flat(state.tolist()) if hasattr(state, "tolist") else [state]


def _is_of_python(value, package):
    """An object of Python's own library, or a function or method of whomever."""
    if type(value) in (types.FunctionType, types.MethodType, types.BuiltinFunctionType):
        return True
    return package in _LIBRARY


def _is_c_data(value):
    """Memory that a ctypes array or structure shows: no object tells what it points at."""
    return any(base.__module__ == "_ctypes" for base in type(value).__mro__)


def is_pythons_name(name):
    """`__file__` and its like; `__mine` is a variable as any other."""
    return isinstance(name, str) and name.startswith("__") and name.endswith("__")


def _harmless(value, package):
    """What holds no array of the script's: a type of elements, a function of NumPy, a picture."""
    if callable(value) and not type(value).__dictoffset__:
        return True
    numpy = sys.modules["numpy"]
    kinds = (numpy.dtype, numpy.ufunc, type(numpy.mean))
    return issubclass(type(value), kinds) or package in _PICTURES or package in _FITTED
