# SPDX-License-Identifier: Apache-2.0
"""What hangs below an object that is not torch's: its arrays by name, its plain values as a text,
and what cannot be read.

Only what an object holds is looked at (its `__dict__`, the items of its containers), never a
property or a method of its class: looking changes nothing. An extension type of scikit-learn or
SciPy, which holds its state where Python does not see it, is asked for what pickle would write.
"""

import enum
import functools
import sys
import types

DEPTH = 24  # of objects in objects
PLAIN = 1 << 16  # plain values of one object
NAMES = 1 << 16  # arrays of one object
_LIBRARIES = ("sklearn.", "scipy.", "numpy.")
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_SPARSE = ("data", "indices", "indptr", "row", "col", "coords", "offsets", "_shape")
# No results: wall-clock times that scikit-learn's searches keep among them, and an address.
NO_STATE = {"refit_time_", "mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}
NO_STATE |= {"_stop_words_id"}


def _held(value):
    """The instance's own attributes; None where it has none, or its class makes them up."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return held if type(held) is dict else None


_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that was made by a statement, or might be


class _Plain:
    pass


def _is_plain(kind):
    """Do its objects hold their attributes and nothing else, neither slots nor what C code keeps?"""
    for base in kind.__mro__[:-1]:
        slots = base.__dict__.get("__slots__", ())
        slots = {slots} if type(slots) is str else set(slots)
        if not base.__flags__ & _HEAP or slots - {"__dict__", "__weakref__"}:
            return False
    return kind.__basicsize__ <= _Plain.__basicsize__ and not kind.__itemsize__


class Walk:
    """Calls array(name, ndarray) for each array; texts: plain values; unread: what has neither, as
    `name (type)`.
    """

    def __init__(self, array):
        self.numpy, self.array = sys.modules["numpy"], array
        self.texts, self.unread, self.arrays, self.met = [], [], 0, {}

    def plain(self, name, text):
        if len(self.texts) < PLAIN:
            self.texts.append("%s=%s" % (name, text))
        elif len(self.texts) == PLAIN:
            self.texts.append("")
            self.unread.append("more than %d plain values" % PLAIN)

    def look(self, name, value, depth=0):
        kind, numpy = type(value), self.numpy
        if value is None or kind in (bool, int, str, bytes, complex):
            self.plain(name, repr(value))
        elif kind is float:
            self.plain(name, value.hex())
        elif issubclass(kind, numpy.generic):
            self.plain(name, "%s %s" % (value.dtype.str, value.tobytes().hex()))
        elif issubclass(kind, (*_FUNCTIONS, numpy.ufunc, type(numpy.mean))):
            self.plain(name, getattr(value, "__qualname__", getattr(value, "__name__", "")))
        elif kind in (slice, range):
            self.plain(name, repr(value))
        elif depth >= DEPTH:
            self.unread.append("%s (objects in objects)" % name)
        elif id(value) in self.met:
            self.plain(name, "as " + self.met[id(value)][0])
        else:
            self.met[id(value)] = name, value  # kept: the id stays its own
            self._inside(name, value, kind, depth + 1)

    def _inside(self, name, value, kind, depth):
        numpy = self.numpy
        if issubclass(kind, numpy.ndarray):
            self._ndarray(name, value, depth)
        elif issubclass(kind, enum.Enum):
            self.plain(name, "%s.%s" % (kind.__qualname__, value._name_))
        elif kind is functools.partial:
            self._items(name, (value.func, value.args, value.keywords), depth)
        elif issubclass(kind, tuple):
            self._items(name, list(tuple.__iter__(value)), depth)
        elif kind is list:
            self._items(name, value, depth)
        elif kind in (set, frozenset):
            self.plain(name, repr(sorted(map(repr, value))))
        elif issubclass(kind, dict):
            for key, inner in dict.items(value):
                if key not in NO_STATE:
                    self.look("%s[%r]" % (name, key) if type(key) is str else name, inner, depth)
                    if type(key) is not str:
                        self.look(name + " key", key, depth)
        elif value is getattr(numpy.random.mtrand, "_rand", None):
            self.plain(name, "numpy.random")  # looked at as a generator of its own (rng.py)
        elif issubclass(kind, numpy.random.RandomState):
            self._items(name, value.get_state(), depth)
        elif issubclass(kind, numpy.random.Generator):
            self.look(name, value.bit_generator.state, depth)
        elif issubclass(kind, numpy.dtype):
            self.plain(name, repr(value))
        else:
            self._object(name, value, kind, depth)

    def _items(self, name, values, depth):
        """Many numbers are one array."""
        numbers = len(values) > 8 and len(set(map(type, values))) == 1
        if numbers and type(values[0]) in (float, int):
            array = self.numpy.asarray(values)
            if array.dtype != object:
                self._ndarray(name, array, depth)
                return
        self.plain(name, "%d items" % len(values))
        for i, inner in enumerate(values):
            self.look("%s[%d]" % (name, i), inner, depth)

    def _ndarray(self, name, value, depth):
        """Of structured arrays each field: between them lies memory that nobody has written."""
        numpy = self.numpy
        if value.dtype.names:
            for field in value.dtype.names:
                self._ndarray("%s.%s" % (name, field), value[field], depth)
        elif value.dtype == object:
            self.plain(name, repr(value.shape))
            for i, inner in enumerate(value.flat):
                self.look("%s[%d]" % (name, i), inner, depth)
        elif self.arrays == NAMES:
            self.unread.append("more than %d arrays" % NAMES)
            self.arrays += 1
        elif self.arrays < NAMES:
            self.arrays += 1
            value = numpy.ndarray.view(value, numpy.ndarray)  # a matrix, masked, mapped
            if any(stride % value.itemsize for stride in value.strides if value.itemsize):
                value = numpy.ascontiguousarray(value)
            if value.dtype.kind in "USMmV":  # text, dates
                self.plain(name, "%s %r" % (value.dtype.str, value.shape))
                value = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)
            self.array(name, value)

    def _object(self, name, value, kind, depth):
        module = kind.__module__ or ""
        held = _held(value)
        self.plain(name, "%s.%s" % (module, kind.__qualname__))
        if module.startswith("pandas."):
            self._pandas(name, value, held, depth)
        elif held is not None and module.startswith("scipy.sparse"):
            for key in _SPARSE:
                if key in held:
                    self.look("%s.%s" % (name, key), held[key], depth)
        elif held is not None and _is_plain(kind):
            for key in sorted(held):
                if key not in NO_STATE:
                    self.look("%s.%s" % (name, key), held[key], depth)
        elif module.startswith(_LIBRARIES):
            self._pickled(name, value, depth)
        else:
            self.unread.append("%s (%s.%s)" % (name, module, kind.__qualname__))

    def _pickled(self, name, value, depth):
        """What pickle would write of an extension type: how it is made, and its state."""
        try:
            parts = value.__reduce_ex__(2)
        except TypeError:  # it says that it cannot be written
            parts = None
        if type(parts) is not tuple:
            self.unread.append("%s (%s)" % (name, type(value).__qualname__))
            return
        for part in parts[1:3]:
            self.look(name, part, depth)

    def _pandas(self, name, value, held, depth):
        """A table is its blocks of equal type, and its labels."""
        manager = (held or {}).get("_mgr")
        blocks = getattr(manager, "blocks", None)
        if blocks is None:
            self.unread.append("%s (%s)" % (name, type(value).__qualname__))
            return
        for i, axis in enumerate(manager.axes):
            labels = (_held(axis) or {}).get("_data")
            if isinstance(labels, self.numpy.ndarray):
                self.look("%s.axes[%d]" % (name, i), labels, depth)
        for i, block in enumerate(blocks):
            if isinstance(block.values, self.numpy.ndarray):
                self.look("%s.values[%d]" % (name, i), block.values, depth)
            else:
                self.unread.append(
                    "%s.values[%d] (%s)" % (name, i, type(block.values).__qualname__)
                )
