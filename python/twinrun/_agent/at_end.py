# SPDX-License-Identifier: Apache-2.0
"""What a script of NumPy, SciPy and pandas holds when it ends: the arrays and tables in variables
of its own files, and the generators. Looked at once, behind the script's last line.

No function is watched while it runs: docs/internals/frameworks.md says what that would cost. So
what a function computed and did not hand back to a variable is not seen, and a script that has
functions of its own is told so; one without can be "same".

Nothing here calls code of the job: attributes are read from `__dict__`, and only types of NumPy,
pandas and SciPy themselves are asked for their contents.
"""

import ast
import collections
import gc
import os
import resource
import sys
import threading
import types
import warnings

from . import buffers, consumers, core, faults, fresh, native, tensors
from .core import S, T

LEAVES = 4096
DEPTH = 8
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
_HANDING_BACK = {
    "bottleneck",
    "contourpy",
    "matplotlib",
    "mpl_toolkits",
    "networkx",
    "numexpr",
    "numpy",
    "pandas",
    "PIL",
    "pyarrow",
    "scipy",
    "seaborn",
    "skimage",
    "sklearn",
    "statsmodels",
    "sympy",
    "xarray",
}
# of these nothing is asked: what they draw is compared where it is written
_PICTURES = ("matplotlib", "mpl_toolkits", "seaborn", "PIL")


class Held:
    """What was found: arrays by name, in the order of the variables, and what stayed unseen."""

    def __init__(self, numpy, own):
        self.numpy, self.own = numpy, own
        self.pandas, self.sparse = sys.modules.get("pandas"), sys.modules.get("scipy.sparse")
        self.scope = ""
        self.arrays, self.states = [], []  # (scope, name, array or bytes; None: cannot be read)
        self.unseen = []
        self.visited = {}  # id -> object: kept, so that no id comes twice
        self.holders = []  # (name, object of Python's own library, which may hold anything)

    def missed(self, text):
        if text not in self.unseen:
            self.unseen.append(text)

    def add(self, name, array):
        if len(self.arrays) < LEAVES:
            self.arrays.append((self.scope, name, array))
        else:
            self.missed("arrays beyond the first %d that the script's variables hold" % LEAVES)

    # ------------------------------------------------------------ one value

    def walk(self, name, value, depth=0):
        kind = type(value)
        if kind in _PLAIN or value is None:
            return
        if isinstance(value, self.numpy.generic):
            self.array(name, self.numpy.asarray(value))
            return
        if id(value) in self.visited:
            return
        self.visited[id(value)] = value
        if depth > DEPTH:
            self.missed("what %s holds: nested too deep" % name)
        elif isinstance(value, self.numpy.ndarray):
            self.array(name, value)
        elif kind.__module__ == "array" or isinstance(value, (bytearray, memoryview)):
            self.add(name, value)
        elif isinstance(value, (list, tuple, set, frozenset, dict, collections.deque)):
            self.container(name, value, depth)
        elif not (self.generator(name, value) or self.table(name, value, depth)):
            self.other(name, value, depth)

    def container(self, name, value, depth):
        if isinstance(value, (set, frozenset)):
            # no array can be in one; its order may follow the hash seed
            plain = set if isinstance(value, set) else frozenset
            if not all(isinstance(v, (*_PLAIN, tuple)) for v in plain.__iter__(value)):
                self.missed("the set %s" % name)
        elif isinstance(value, dict):
            for key, inner in list(dict.items(value)):
                self.walk("%s[%s]" % (name, tensors._key(key)), inner, depth + 1)
        else:
            # as the type itself does: a class of the job may say otherwise
            plain = next(t for t in (list, tuple, collections.deque) if isinstance(value, t))
            for i, inner in enumerate(plain.__iter__(value)):
                self.walk("%s[%d]" % (name, i), inner, depth + 1)

    def other(self, name, value, depth):
        """An object of the script's own class is looked into; one of a library is told as unseen,
        where it could hold an array.
        """
        kind = type(value)
        module = getattr(kind, "__module__", "") or ""
        if isinstance(value, type):
            if vars(value).get("__module__") in self.own:
                self.members(name, vars(value), depth)
        elif isinstance(value, types.ModuleType):
            if sys.modules.get(vars(value).get("__name__")) is not value:
                self.missed("what the module %s holds, which was not imported by its name" % name)
        elif _is_c_data(value):
            self.missed("what %s (%s) holds" % (name, kind.__name__))
        elif module in self.own or (module, kind.__name__) in _NAMESPACES:
            if any("__slots__" in vars(base) for base in kind.__mro__[:-1]):
                self.missed("what %s (%s) holds in slots" % (name, kind.__name__))
            try:
                inner = object.__getattribute__(value, "__dict__")
            except AttributeError:
                return
            self.members(name, inner, depth)
        elif _is_of_python(value, module.partition(".")[0]):
            self.holders.append((name, value))
        elif not _harmless(value, module.partition(".")[0]):
            self.missed("what %s (%s.%s) holds" % (name, module, kind.__name__))

    def members(self, name, inner, depth):
        for key, part in list(inner.items()):
            if not _is_pythons_name(key):
                self.walk("%s.%s" % (name, key), part, depth + 1)

    def look_into_holders(self):
        """Queues, iterators, generators, partial functions, closures and their like: who holds
        something that no variable has shown is told. Their contents have no names, and some can be
        read only once, so they are not recorded.
        """
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
                if type(part) in _PLAIN or isinstance(part, (type, types.ModuleType)):
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
        if not isinstance(holder, types.FunctionType):
            return gc.get_referents(holder)
        if holder.__module__ not in self.own:
            return []
        own = (holder.__closure__, holder.__defaults__, holder.__kwdefaults__, holder.__dict__)
        return gc.get_referents(*filter(None, own))

    # ------------------------------------------------------------ arrays

    def array(self, name, array):
        numpy = self.numpy
        masked = sys.modules.get("numpy.ma")
        if masked is not None and isinstance(array, masked.MaskedArray):
            self.array(name + ".mask", masked.getmaskarray(array))
            array = masked.getdata(array)
        array = array.view(numpy.ndarray)
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
        stamps = ("Timestamp", "Timedelta", "NaTType", "NAType", "Decimal", "longdouble")
        for value in flat:
            kind = type(value)
            if kind not in _PLAIN and kind.__name__ not in stamps:
                if not isinstance(value, self.numpy.generic):
                    return None
        return tensors.plain_bytes([array.shape, *flat])

    # ------------------------------------------------------------ tables, sparse matrices

    def table(self, name, value, depth):
        pandas, kind = self.pandas, type(value)
        if pandas is not None and kind is pandas.DataFrame:
            self.walk(name + ".attrs", value.attrs, depth + 1)
            self.index(name + ".columns", value.columns)
            self.index(name + ".index", value.index)
            for i, label in enumerate(value.columns.tolist()):
                self.column("%s[%s]" % (name, tensors._key(label)), value.iloc[:, i])
            return True
        if pandas is not None and kind is pandas.Series:
            self.walk(name + ".attrs", value.attrs, depth + 1)
            self.index(name + ".index", value.index)
            self.column(name, value)
            return True
        if pandas is not None and isinstance(value, pandas.Index):
            self.index(name, value)
            return True
        form = getattr(kind, "format", None) if self.sparse is not None else None
        if form is not None and (kind.__module__ or "").startswith("scipy.sparse"):
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
        self.add(name, found and found + (tensors.plain_bytes(names) if any(names) else b""))

    # ------------------------------------------------------------ generators

    def generator(self, name, value):
        random, module = sys.modules.get("numpy.random"), sys.modules.get("random")
        if random is not None and isinstance(value, random.Generator):
            self.state(name, value.bit_generator.state)
        elif random is not None and isinstance(value, random.BitGenerator):
            self.state(name, value.state)
        elif random is not None and type(value) is random.RandomState:
            self.state(name, value.get_state(legacy=False))
        elif module is not None and type(value) is module.Random:
            self.state(name, value.getstate())
        else:
            return False
        return True

    def state(self, name, state):
        self.states.append((self.scope, name, tensors.plain_bytes(_flat(state))))


def _flat(state):
    """The plain values of a generator's state, in order."""
    if isinstance(state, dict):
        return [x for key in sorted(state) for x in [key, *_flat(state[key])]]
    if isinstance(state, (list, tuple)):
        return [x for part in state for x in _flat(part)]
    return _flat(state.tolist()) if hasattr(state, "tolist") else [state]


_LIBRARY = getattr(sys, "stdlib_module_names", ("builtins", "pathlib", "argparse", "time"))
_NAMESPACES = {("types", "SimpleNamespace"), ("argparse", "Namespace")}
_HIDING = ("_local", "ContextVar")  # of these nobody is told what they hold


def _is_of_python(value, package):
    """An object of Python's own library, or a function or method of whomever."""
    if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return True
    return package in _LIBRARY


def _is_c_data(value):
    """Memory that a ctypes array or structure shows: no object tells what it points at."""
    return any(base.__module__ == "_ctypes" for base in type(value).__mro__)


def _is_pythons_name(name):
    """`__file__` and its like; `__mine` is a variable as any other."""
    return isinstance(name, str) and name.startswith("__") and name.endswith("__")


def _harmless(value, package):
    """What holds no array of the script's: a type of elements, a function of NumPy, a picture."""
    if callable(value) and not hasattr(value, "__dict__"):
        return True
    numpy = sys.modules["numpy"]
    kinds = (numpy.dtype, numpy.ufunc, type(numpy.mean))
    return isinstance(value, kinds) or package in _PICTURES


# ---------------------------------------------------------------- the script


def script():
    """The file that the process was started with; None when it is not one of the job's own.

    `__main__.__file__` is gone by now. Before Python 3.9 the loader's path is relative: a script
    that has changed its folder is not found, and unseen.
    """
    main = sys.modules.get("__main__")
    file = getattr(getattr(main, "__loader__", None), "path", None)
    if not isinstance(file, str) or not file.endswith(".py") or not os.path.isfile(file):
        return None
    file = os.path.abspath(file)
    return file if consumers.own(file) else None


def _own_modules(file):
    """name -> module: `__main__`, and whatever was imported that is neither Python's own nor
    installed.
    """
    found = {"__main__": sys.modules["__main__"]}
    for name, module in list(sys.modules.items()):
        there = getattr(module, "__file__", None)
        if isinstance(there, str) and os.path.abspath(there) != file:
            if consumers.own(os.path.abspath(there)):
                found[name] = module
    return found


def _computing_packages():
    """Installed packages that have NumPy at hand and are none of those whose functions are known to
    hand back what they compute: one may be the job itself (`from mine.cli import main; main()`).
    """
    found = set()
    for module in list(sys.modules.values()):
        there = getattr(module, "__file__", None)
        if not isinstance(there, str) or "-packages" + os.sep not in there:
            continue
        # by its place: compiled modules go by names of their own
        package = there.split("-packages" + os.sep, 1)[1].partition(os.sep)[0].partition(".")[0]
        if package not in _HANDING_BACK and any(
            value.__name__.partition(".")[0] == "numpy"
            for value in list(vars(module).values())
            if type(value) is type(sys)
        ):
            found.add(package)
    return sorted(found)


def _has_functions(file):
    """Does a file define functions or classes, whose work its variables do not show, or execute
    text that may?
    """
    try:
        with open(file, "rb") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return True
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(
        isinstance(node, kinds) or isinstance(node, ast.Name) and node.id == "exec"
        for node in ast.walk(tree)
    )


def _find(file):
    held = Held(sys.modules["numpy"], _own_modules(file))
    for name, module in held.own.items():
        held.scope = os.path.basename(file) if name == "__main__" else name
        for variable, value in list(vars(module).items()):
            if not _is_pythons_name(variable):
                held.walk(variable, value)
        there = file if name == "__main__" else os.path.abspath(module.__file__)
        if not there.endswith(".py") or _has_functions(there):
            held.missed(
                "what functions of %s computed and did not leave in its variables"
                % os.path.basename(there)
            )
    held.look_into_holders()
    packages = _computing_packages()
    for package in packages:
        held.missed("what the package %s computed" % package)
    if "runpy" in sys.modules:
        held.missed("what other files ran by runpy computed")
    if threading.active_count() > 1:
        held.missed("threads of the script that still ran when it ended")
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt:
        held.missed("what programs that the script started computed")
    # a package may draw from the generators that all share, for purposes of its own (JAX does)
    for name in ("numpy", "python.random") if not packages else ():
        state = fresh.moved(name)
        if state is not None:
            held.scope = ""
            held.state(name, state)
    return held


def _record(held):
    pending = tensors.pending()
    flags = native.STATS | native.SKETCH
    for rows, phase, kind, op in (
        (held.states, native.RNG, native.STATE, "the script"),
        (held.arrays, native.OUTPUT, native.VALUE, "at the end"),
    ):
        for scope, name, array in rows:
            if isinstance(array, bytes):
                array = bytearray(array or b"\0")
            buffers.add(pending, phase, kind, name, array, scope, op, "", flags)
    pending.flush()


def look():
    """Records what the script holds. False when there is nothing to tell: then the process is said
    to be unseen.
    """
    file = script()
    if not hasattr(sys.modules["numpy"], "ndarray"):
        return False  # a module of the job that has this name
    if file is None or S.begun or not core.start() or S.lib.step() > 0:
        return False  # the last: a library in C has shown steps of its own
    T.busy = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = _find(file)
        if not held.arrays and not held.states or not core.begin():
            return False
        _record(held)
        core.note("held", "%d %s" % (len(held.arrays), os.path.basename(file)))
        for name in ("numpy", "python.random"):
            told = any(scope == "" and name == of for scope, of, _state in held.states)
            if told and fresh.only_drawn_from(name):
                core.note("unseeded." + name, "the script")
        for text in held.unseen:
            core.unseen(text)
        return True
    except Exception as error:
        faults.pass_on(error)
        core.fail("at the end", error)
        return False
    finally:
        T.busy = False
        if S.begun:
            core._finish()
