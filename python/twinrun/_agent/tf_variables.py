# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's variables: what they are called, what they hold, and who wrote to them.

A variable is known from its birth on (tf_hooks.py). It gets a name where it is first seen: its path
in Keras, or the name that TensorFlow gave it. After each call that may have written to variables
they are recorded: the small ones whole, the large ones in parts that take turns (parts.py). Before
the next call they are looked at again, and what somebody has written in between is recorded there,
so that the call is not blamed for it. Of a large variable that look takes in a few of its elements
and where it lies, which a note says: "written.unseen".
"""

import ctypes
import os
import sys

from . import core, faults, parts, refs, sites, tensors, tf_values
from .core import S, hook
from .native import (
    DATA,
    FORWARD,
    HYPER,
    INIT,
    MOMENT,
    OPTIMIZER,
    PART,
    RNG,
    SKETCH,
    STATE,
    STATS,
    TENSORS,
    WEIGHT,
)

CATEGORIES = {WEIGHT: "weight", STATE: "state"}
STATS_EVERY = 8  # steps, as for PyTorch's weights
PROBE = 4096  # bytes of a large variable that are looked at before a call
WHOLE_BYTES = 64 << 20  # of one call's variables, looked at whole in the first steps

_by_handle = {}  # id(handle) -> Known
_keras = refs.ByObject()  # tf.Variable -> weak reference to the variable of Keras that holds it
_optimizers = {}  # id -> weak reference, of Keras's optimizers
_names = {}  # name -> how many variables have been called so
_execute = _context = None
_stopped = _stop = _go_on = None  # of tapes


class Known:
    """One variable. name, kind, phase: of its records, once it was seen. known: what it held when
    it was looked at last, as (address, digest of the first bytes looked at, place, bytes).
    generator: whether it is the state of a tf.random.Generator, which tf_random.py records.
    """

    __slots__ = (
        "reference",
        "handle",
        "dtype",
        "name",
        "kind",
        "phase",
        "numbers",
        "known",
        "op",
        "site",
        "host",
        "shape",
        "generator",
        "gone",
    )

    def __init__(self, variable, handle):
        self.reference, self.handle = refs.to(variable), id(handle)
        self.dtype = variable.dtype
        self.name = self.known = None
        self.numbers = {}
        self.op = ""
        self.generator = False
        self.host = "CPU" in (variable.device or "")
        self.shape = tuple(variable.shape.as_list()) if variable.shape.rank is not None else None
        self.site = sites.near(sys._getframe(4))  # where it was made

    def read(self):
        """What it holds, as an array of NumPy over its own memory; None before it holds anything."""
        variable = self.reference()
        if variable is None:
            return None
        try:
            value = _execute(
                _context(), "ReadVariableOp", None, variable._handle, "dtype", self.dtype
            )
        except Exception as error:  # not initialized yet
            faults.pass_on(error)
            return None
        return self.array(variable, value)

    def array(self, variable, value):
        array = tf_values.array_of(value)
        if array.shape == self.shape or variable.shape.is_compatible_with(array.shape):
            return array
        return None  # not initialized: without contents

    def number(self, phase, suffix="", op=None, site=""):
        key = phase, suffix, op, site
        found = self.numbers.get(key)
        if found is None:
            op = self.op if op is None else op
            found = core.series(phase, self.kind, self.name + suffix, "", op, site, "")
            self.numbers[key] = found
        return found


def arm():
    global _execute, _context, _stopped, _stop, _go_on
    api = sys.modules["tensorflow.python.pywrap_tfe"]
    _execute = api.TFE_Py_FastPathExecute
    _context = sys.modules["tensorflow.python.eager.context"].context
    _stopped, _stop = api.TFE_Py_TapeSetIsStopped, api.TFE_Py_TapeSetStopOnThread
    _go_on = api.TFE_Py_TapeSetRestartOnThread


class unrecorded:
    """A context in which no tape of the job sees what we read."""

    def __enter__(self):
        self.was_stopped = _stopped()
        if not self.was_stopped:
            _stop()

    def __exit__(self, *_exception):
        if not self.was_stopped:
            _go_on()


# ---------------------------------------------------------------- who they are


@hook
def born(variable):
    """A variable has been made."""
    handle = getattr(variable, "_handle", None)
    if handle is None or not tf_values.is_eager(handle):
        return
    key = id(handle)
    if of_handle(handle) is not None:
        return  # what assign() returns is another object for the same variable
    known = Known(variable, handle)
    known.reference = refs.to(variable, lambda reference: _forget(key, reference))
    _by_handle[key] = known


def _forget(key, reference):
    if key in _by_handle and _by_handle[key].reference is reference:
        del _by_handle[key]


@hook
def of_keras(outer):
    """A variable of Keras has got its variable of TensorFlow."""
    inner = getattr(outer, "_value", None)
    if inner is not None:
        _keras.put(inner, refs.to(outer))


def optimizer_made(optimizer):
    key = id(optimizer)
    if key not in _optimizers or _optimizers[key]() is not optimizer:
        _optimizers[key] = refs.to(optimizer, lambda _reference: _optimizers.pop(key, None))


def optimizers():
    return [o for o in (reference() for reference in list(_optimizers.values())) if o is not None]


def of_handle(handle):
    """The variable of a handle; None for an iterator, a table, or one that is no more."""
    found = _by_handle.get(id(handle))
    variable = found.reference() if found is not None else None
    return found if variable is not None and variable._handle is handle else None


def of(variable):
    """The same of a variable of TensorFlow or Keras; None for others."""
    inner = getattr(variable, "_value", variable)
    handle = getattr(inner, "_handle", None)
    return of_handle(handle) if handle is not None else None


def own(optimizer):
    """The variables that an optimizer keeps for itself."""
    found = list(getattr(optimizer, "_variables", ()))
    inner = getattr(optimizer, "inner_optimizer", None)
    for other in [inner] if inner is not None else getattr(optimizer, "_optimizers", ()):
        found.extend(own(other))
    return found


def _name(known):
    """Gives it its name, once."""
    variable = known.reference()
    reference = _keras.get(variable)
    outer = reference() if reference is not None else None
    name = getattr(outer, "path", None) or variable.name.partition(":")[0] or "variable"
    count = _names[name] = _names.get(name, 0) + 1
    known.name = name if count == 1 else "%s#%d" % (name, count)
    known.kind, known.phase = WEIGHT, OPTIMIZER
    short = name.rpartition("/")[2]
    if short.startswith("seed_generator_state") or short == "StateVar":
        known.kind, known.phase = STATE, RNG
        return
    for optimizer in optimizers():
        for mine in own(optimizer):
            if getattr(mine, "_value", None) is variable:
                known.op = type(optimizer).__name__
                known.kind = HYPER if short == "learning_rate" else MOMENT


# ---------------------------------------------------------------- what they hold


def read(knowns):
    """What each of them holds, as Known.read(): by one operation, where all lie in the host's
    memory, which takes a fifth of the time.
    """
    variables = [known.reference() for known in knowns]
    present = all(variable is not None for variable in variables)
    if len(knowns) > 1 and present and all(known.host for known in knowns):
        try:
            values = _execute(
                _context(),
                "_ReadVariablesOp",
                None,
                [variable._handle for variable in variables],
                "dtypes",
                [known.dtype for known in knowns],
            )
            return [k.array(v, value) for k, v, value in zip(knowns, variables, values)]
        except Exception as error:  # one of them is not initialized yet
            faults.pass_on(error)
    return [known.read() for known in knowns]


def _wanted(known):
    if known.generator:
        return False
    return S.level >= TENSORS or known.kind == WEIGHT


def _divisible(array):
    return (
        S.level == TENSORS
        and array.size >= parts.LARGE
        and array.dtype.name in tf_values.buffers.NAMED
        and array.flags.c_contiguous
    )


def meet(knowns):
    """Names the variables, and records what those hold that were not seen before."""
    fresh = [known for known in knowns if known.name is None]
    if not fresh:
        return
    pending = tensors.pending()
    with unrecorded():
        for known in fresh:
            _name(known)
            array = known.read()
            if array is not None and _wanted(known):
                number = known.number(INIT, site=known.site)
                tf_values.add_array(pending, number, array, STATS | SKETCH)
                core.saw("init")
        pending.flush()
        look(fresh)


def record(knowns, turn, everything=None):
    """What the variables hold now. turn: which part of the large ones, where not everything is."""
    if everything is None:
        everything = S.step < parts.TURNS or _last_or_all()
    counted = (S.step + S.step // parts.TURNS) % STATS_EVERY == 0
    flags = STATS | SKETCH if counted else SKETCH
    pending = tensors.pending()
    with unrecorded():
        arrays = read(knowns)
        for known, array in zip(knowns, arrays):
            if array is None or not _wanted(known):
                continue
            core.saw(CATEGORIES.get(known.kind, "moment"))
            if _divisible(array):
                _add_parts(pending, known, array, turn, everything, flags)
            else:
                tf_values.add_array(pending, known.number(known.phase), array, flags)
        _learn(knowns, arrays)
        pending.flush()


def _last_or_all():
    last = S.last_step is not None and S.step >= S.last_step
    return last or os.environ.get("TWINRUN_PARTS") == "all"


def _add_parts(pending, known, array, turn, everything, flags):
    if "parts" not in S.seen:
        S.seen.add("parts")
        core.note("parts", str(parts.TURNS))
    code, count, width = tf_values.buffers.NAMED[array.dtype.name], array.size, array.itemsize
    pointer = array.ctypes.data
    pending.keep.append(array)
    for each, (first, end) in enumerate(parts.bounds(count)):
        if each == turn or everything:
            number = known.number(known.phase, parts.part_name("", first, end))
            wanted = (flags if each == turn else flags & ~STATS) | PART
            at = pointer + first * width
            pending.put(number, at, code, end - first, (end - first,), None, wanted, first, count)


# ---------------------------------------------------------------- who wrote to them


def look(knowns):
    """Takes what they hold now for known."""
    with unrecorded():
        _learn(knowns, read(knowns))


def _whole(arrays):
    size = sum(array.nbytes for array in arrays if array is not None)
    return S.step < parts.TURNS and size <= WHOLE_BYTES


def _region(array, whole):
    """(place, bytes) of what is looked at."""
    size = array.nbytes
    if whole or array.size < parts.LARGE:
        return 0, size
    place = (S.step * PROBE * 37) % size & ~63
    return place, min(PROBE, size - place)


def _learn(knowns, arrays):
    whole = _whole(arrays)
    wanted = [None if a is None else (a.ctypes.data, *_region(a, whole)) for a in arrays]
    for known, array, place, digest in zip(knowns, arrays, wanted, _digests(arrays, wanted)):
        known.known = None if place is None else (*place, digest)
        if array is not None and place[2] < array.nbytes:
            _note_in_part()


def _digests(arrays, wanted):
    """A digest of each place (address, offset, bytes); None where there is none."""
    regions = (ctypes.c_uint64 * (2 * len(wanted) or 1))()
    for i, place in enumerate(wanted):
        if place is not None and not arrays[i].dtype.hasobject:
            regions[2 * i : 2 * i + 2] = place[0] + place[1], place[2]
    digests = ctypes.create_string_buffer(8 * len(wanted) or 1)
    S.lib.quick_digests(regions, len(wanted), digests)
    return [digests.raw[8 * i : 8 * i + 8] for i in range(len(wanted))]


def check(knowns):
    """Records those that somebody has written to since they were looked at."""
    meet(knowns)
    with unrecorded():
        arrays = read(knowns)
        wanted = [
            None if array is None else (array.ctypes.data, *((known.known or _NOWHERE)[1:3]))
            for known, array in zip(knowns, arrays)
        ]
        changed = []
        for known, array, place, digest in zip(knowns, arrays, wanted, _digests(arrays, wanted)):
            if array is None or (known.known is not None and digest == known.known[3]):
                continue
            changed.append((known, array))
        if changed:
            _record_written(changed, "written", sites.user())
            del arrays, changed
            look(knowns)


_NOWHERE = 0, 0, 0, b""


def _record_written(changed, op, site):
    pending = tensors.pending()
    for known, array in changed:
        if _wanted(known):
            phase = FORWARD if known.kind in (WEIGHT, MOMENT) else DATA
            number = known.number(phase if known.kind != STATE else RNG, "", op, site)
            tf_values.add_array(pending, number, array, STATS | SKETCH)
    pending.flush()


def assigned(variable, op, site):
    """A line of the job has written to a variable."""
    known = of(variable)
    if known is None:
        return
    if known.name is None:
        _name(known)
    with unrecorded():
        array = known.read()
        if array is not None:
            _record_written([(known, array)], op, site)
            _learn([known], [array])


def _note_in_part():
    if "tensorflow in part" not in S.seen:
        S.seen.add("tensorflow in part")
        core.note("written.unseen", "%d variables are looked at in part" % S.step)


# ---------------------------------------------------------------- the end


def all_known():
    """Those that are alive, in the order in which they were made. One that was never seen gets its
    name here: what operations did to it one by one is in its last value.
    """
    found = [known for known in list(_by_handle.values()) if known.reference() is not None]
    for known in found:
        if known.name is None:
            _name(known)
    return found


def at_exit():
    record(all_known(), 0, True)


def in_child():
    for known in _by_handle.values():
        known.numbers.clear()
