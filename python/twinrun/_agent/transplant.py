# SPDX-License-Identifier: Apache-2.0
"""Transplant: values recorded at a boundary of one run take the place of another run's, so that
each step starts equal.

TWINRUN_TRANSPLANT = MODE:KIND:FIRST:LAST:CAP:FOLDER. MODE: `measure` (only says how many bytes it
would take), `record`, `inject`. KIND: `data` (batches, as loaders deliver them), `rng` (generator
states at the start of each step), `step` (both, and weights, buffers, optimizer state and the
gradient scaler's). FIRST..LAST: steps. CAP: bytes that this process may write. FOLDER: where the
recording run has put its files (inject).

The boundary is the end of a step, after its last record. A step is transplanted as a whole or not
at all: names, types and shapes are matched first. What a loader delivers is replaced, never
overwritten: its memory may be the dataset's own.
"""

import ctypes
import os
import random
import sys

from . import amp, core, faults, naming, nested, rng, steps, tensors, values_file, written
from .core import S
from .values_file import BATCH, PLAIN, STATE

GENERATOR = "rng."  # before the names of generators
LEFT_OUT = 256  # notes on steps that were left out; then the transplant ends

_request = None  # Request; None when there is none
_torch = None
_SCALARS = (bool, int, float, str, type(None))


class Mismatch(Exception):
    """This run's values cannot take, or give, the recorded ones."""


class Request:
    def __init__(self, text):
        self.mode, self.kind, first, last, cap, self.folder = text.split(":", 5)
        if self.mode not in ("measure", "record", "inject") or self.kind not in (
            "data",
            "rng",
            "step",
        ):
            raise ValueError("unknown mode or kind")
        self.first, self.last, self.cap = int(first), int(last), int(cap)
        self.batches = self.kind != "rng"
        self.file = None  # Writer or Reader, opened at the first use
        self.number = 0  # batches delivered in this step
        self.measured = [0, 0]  # bytes of a state, of a step's batches
        self.left_out = 0
        self.began = self.ended = False

    def here(self):
        return not self.ended and S.worker is None and self.first <= S.step <= self.last

    def open(self):
        if self.file is None:
            name = claim()
            if self.mode == "record":
                self.file = values_file.Writer(os.path.join(_own_folder(), name + ".twv"), self.cap)
            else:
                self.file = values_file.Reader(os.path.join(self.folder, name + ".twv"))
        return self.file

    def end(self, key, why):
        self.ended = True
        core.note(key, "%d %s" % (S.step, why))


def _own_folder():
    return os.path.join(os.environ["TWINRUN_RUN_DIR"], "transplant")


def claim():
    """The name of this process's file: rank and place among multiprocessing's children. Programs
    that share both, one after the other, are told apart by their order.
    """
    folder, child = _own_folder(), core.child_number()
    os.makedirs(folder, exist_ok=True)
    base = "r%d" % S.rank + (".c" + child if child else "")
    for number in range(1, 1000):
        name = base if number == 1 else "%s-%d" % (base, number)
        try:
            os.close(
                os.open(
                    os.path.join(folder, name + ".claim"),
                    os.O_CREAT | os.O_EXCL | os.O_WRONLY,
                    0o600,
                )
            )
            return name
        except FileExistsError:
            continue
    raise Mismatch("more than 1,000 programs are rank %d" % S.rank)


# ---------------------------------------------------------------- tensors as bytes


def _plain(name, t):
    if (
        type(t) not in tensors._plain
        or t.layout is not _torch.strided
        or t.is_quantized
        or t.device.type == "meta"
        or (tensors._wrapped(t) or t.is_conj() or (tensors._has_is_neg and t.is_neg()))
    ):
        raise Mismatch("%s is no plain tensor" % name)


def _bytes_of(name, t):
    """(type, shape, bytes-like) of a tensor. The bytes are the tensor's own memory where it has
    some: valid until it changes.
    """
    _plain(name, t)
    whole = t.detach()
    if whole.device.type != "cpu" or not whole.is_contiguous():
        whole = whole.cpu().contiguous()
    size = whole.numel() * whole.element_size()
    data = b""
    if size:
        array = (ctypes.c_ubyte * size).from_address(whole.data_ptr())
        array.owner = whole
        data = memoryview(array)
    return str(t.dtype), list(t.shape), data


def _fits(name, t, entry):
    """Raises Mismatch unless the recorded entry can be put into t."""
    _plain(name, t)
    _name, kind, shape, data = entry
    if (
        data is None
        or kind != str(t.dtype)
        or shape != list(t.shape)
        or len(data) != t.numel() * t.element_size()
    ):
        raise Mismatch(
            "%s: recorded %s %s, here %s %s" % (name, kind, shape, t.dtype, list(t.shape))
        )


def _fresh(t, data):
    """A new host tensor of t's type and shape with these bytes."""
    if not len(data):
        return _torch.empty(t.shape, dtype=t.dtype)
    return _torch.frombuffer(data, dtype=_torch.uint8).clone().view(t.dtype).view(t.shape)


def _fill(t, data):
    """Bit for bit, in place, past autograd: graphs in flight and version counters
    notice nothing.
    """
    if t.device.type == "cpu" and t.is_contiguous():
        if len(data):
            ctypes.memmove(t.data_ptr(), (ctypes.c_ubyte * len(data)).from_buffer(data), len(data))
    else:
        t.data.copy_(_fresh(t, data))


# ---------------------------------------------------------------- what a step starts from


class Slot:
    """One value of the state, a tensor or plain. `put(value)` replaces it; without it a tensor is
    filled in place.
    """

    __slots__ = ("name", "value", "put")

    def __init__(self, name, value, put=None):
        self.name, self.value, self.put = name, value, put

    def entry(self):
        if isinstance(self.value, _torch.Tensor):
            return (self.name,) + _bytes_of(self.name, self.value)
        return self.name, PLAIN, self.value, None

    def check(self, entry):
        if isinstance(self.value, _torch.Tensor):
            _fits(self.name, self.value, entry)
        elif entry[1] != PLAIN or type(entry[2]) is not type(self.value):
            raise Mismatch("%s is of another type" % self.name)

    def give(self, entry):
        if self.put is None:
            _fill(self.value, entry[3])
        else:
            self.put(entry[2] if entry[3] is None else _fresh(self.value, entry[3]))


def _set_item(holder, key, make=lambda value: value):
    def put(value):
        holder[key] = make(value)

    return put


def _generators():
    """Every generator that can be found, with its state."""
    slots = []

    def add_torch(name, generator):
        slots.append(Slot(GENERATOR + name, generator.get_state(), generator.set_state))

    add_torch("torch.cpu", _torch.default_generator)
    if rng._cuda is not None and rng._cuda.is_initialized():
        for i, generator in enumerate(rng._cuda.default_generators):
            add_torch("torch.cuda:%d" % i, generator)
    for source in rng._private.values():
        add_torch(source.name, source.generator)
    version, words, normal = random.getstate()
    slots.append(
        Slot(
            GENERATOR + "python.random",
            [version, list(words), normal],
            lambda v: random.setstate((v[0], tuple(v[1]), v[2])),
        )
    )
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state(legacy=False) if hasattr(numpy, "random") else {}
    if state.get("bit_generator") == "MT19937":

        def put(value):
            numpy.random.set_state(
                {
                    "bit_generator": "MT19937",
                    "state": {"key": numpy.array(value[0], dtype="uint32"), "pos": value[1]},
                    "has_gauss": value[2],
                    "gauss": value[3],
                }
            )

        inner = state["state"]
        slots.append(
            Slot(
                GENERATOR + "numpy",
                [
                    inner["key"].tolist(),
                    int(inner["pos"]),
                    int(state["has_gauss"]),
                    float(state["gauss"]),
                ],
                put,
            )
        )
    return slots


def _add(slots, name, holder, key, depth=0):
    """Whatever of holder[key] is a tensor or plain, in containers, too."""
    value = holder[key]
    if isinstance(value, _torch.Tensor):
        slots.append(Slot(name, value))
    elif isinstance(value, _SCALARS):
        slots.append(Slot(name, value, _set_item(holder, key)))
    elif type(value) is tuple and all(isinstance(v, _SCALARS) for v in value):
        slots.append(Slot(name, list(value), _set_item(holder, key, tuple)))
    elif isinstance(value, (dict, list)) and depth < 4:
        for inner in list(value) if isinstance(value, dict) else range(len(value)):
            _add(slots, "%s[%r]" % (name, inner), value, inner, depth + 1)


def _parameters(slots):
    """Weights and buffers of every model seen, then what only an optimizer holds; each once."""
    known = set()

    def add(name, t):
        if t is not None and id(t) not in known:
            known.add(id(t))
            slots.append(Slot(name, t))

    for root in list(naming.roots.values()):
        if root.reference() is None or root.stateless:
            continue
        for name, reference, _owner in root.parameters + root.buffers:
            add("%s.%s" % (root.label, name), reference())
    for optimizer in _alive():
        label = naming.optimizer_labels.of(optimizer)
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                add("%s.%d.%d" % (label, g, i), p)
    for reference in list(steps._leaves.values()):
        t = reference()
        if t is not None and naming.parameter(t) is not None:
            add("leaf." + naming.parameter(t)[0], t)


def _alive():
    return [
        o for o in (reference() for reference in list(steps._optimizers.values())) if o is not None
    ]


def _optimizer(slots, optimizer):
    label = naming.optimizer_labels.of(optimizer)
    for g, group in enumerate(optimizer.param_groups):
        for key in group:
            if key != "params":
                _add(slots, "%s.group%d.%s" % (label, g, key), group, key)
        for i, p in enumerate(group["params"]):
            state = optimizer.state.get(p)
            for key in state if isinstance(state, dict) else ():
                _add(slots, "%s.state%d.%d.%s" % (label, g, i, key), state, key)


def _scaler(slots):
    """The scale, and what this step's update() will go by."""
    scaler = amp._scaler() if amp._scaler is not None else None
    for name in ("_scale", "_growth_tracker"):
        if isinstance(getattr(scaler, name, None), _torch.Tensor):
            slots.append(Slot("scaler." + name, getattr(scaler, name)))
    if scaler is not None:
        for n, state in enumerate(scaler._per_optimizer_states.values()):
            for device, t in state.get("found_inf_per_device", {}).items():
                slots.append(Slot("scaler.found_inf.%d.%s" % (n, device), t))


def _slots():
    """What the step starts from, in an order that is the same in every run."""
    slots = []
    if _request.kind == "data":
        return slots
    if _request.kind == "step" and S.step:
        _parameters(slots)
        for optimizer in _alive():
            _optimizer(slots, optimizer)
        _scaler(slots)
    return slots + _generators()


# ---------------------------------------------------------------- batches


def _rebuild(value, name, leaf):
    """The same structure with leaf(name, value) in place of each tensor, array and plain value."""
    if isinstance(value, (_torch.Tensor,) + _SCALARS) or nested.is_array(value):
        return leaf(name, value)
    if type(value).__name__ in ("dict", "OrderedDict") and isinstance(value, dict):
        return type(value)(
            (key, _rebuild(inner, "%s[%r]" % (name, key), leaf)) for key, inner in value.items()
        )
    if type(value) in (list, tuple):
        return type(value)(
            _rebuild(inner, "%s[%d]" % (name, i), leaf) for i, inner in enumerate(value)
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(
            *(_rebuild(inner, "%s[%d]" % (name, i), leaf) for i, inner in enumerate(value))
        )
    raise Mismatch("%s is a %s" % (name, type(value).__name__))


def _leaves(data):
    entries = []

    def take(name, value):
        if isinstance(value, _torch.Tensor):
            entries.append((name,) + _bytes_of(name, value))
        elif nested.is_array(value):
            if value.dtype.hasobject:
                raise Mismatch("%s holds Python objects" % name)
            entries.append((name, value.dtype.str, list(value.shape), value.tobytes()))
        else:
            entries.append((name, PLAIN, value, None))
        return value

    _rebuild(data, "batch", take)
    return entries


def _given(data, entries):
    """The batch with the recorded values; what is equal already stays the very object it is."""
    waiting, own = iter(entries), iter(_leaves(data))

    def swap(name, value):
        entry, mine = next(waiting, None), next(own)
        if entry is None or entry[:1] != mine[:1] or (entry[3] is None) != (mine[3] is None):
            raise Mismatch("%s was not recorded" % name)
        if entry[3] is None:
            if type(entry[2]) is not type(value):
                raise Mismatch("%s is of another type" % name)
            return entry[2]
        if entry[1:3] != mine[1:3] or len(entry[3]) != len(mine[3]):
            raise Mismatch("%s: recorded %s %s, here %s %s" % ((name,) + entry[1:3] + mine[1:3]))
        if bytes(entry[3]) == bytes(mine[3]):
            return value
        if not isinstance(value, _torch.Tensor):
            return (
                sys.modules["numpy"]
                .frombuffer(bytes(entry[3]), dtype=value.dtype)
                .reshape(value.shape)
                .copy()
            )
        fresh = _fresh(value, entry[3])
        fresh = fresh.pin_memory() if value.is_pinned() else fresh.to(value.device)
        return fresh.requires_grad_(value.requires_grad)

    result = _rebuild(data, "batch", swap)
    if next(waiting, None) is not None:
        raise Mismatch("more was recorded than this batch has")
    return result


# ---------------------------------------------------------------- the boundaries


def _leave_out(why):
    """This step starts as it would have."""
    if _request.mode == "record":
        _request.end("transplant.unrecorded", why)
        return
    _request.left_out += 1
    core.note("transplant.left_out", "%d %s" % (S.step, why))
    if _request.left_out >= LEFT_OUT:
        _request.end("transplant.ended", "%d steps had been left out" % LEFT_OUT)


def _store(sort, number, entries):
    if not _request.open().add(S.step, sort, number, entries):
        _request.end("transplant.full", "%d bytes are used up" % _request.cap)


def _recorded(sort, number):
    found = _request.open().get(S.step, sort, number)
    if found is None:
        raise Mismatch("it was not recorded")
    if not _request.began:
        _request.began = True
        core.note("transplant.began", "%s %d" % (_request.kind, S.step))
    return found


def _measure(entries, index):
    _request.measured[index] += sum(
        values_file.HEAD.size + 64 + (len(repr(e[2])) if e[3] is None else len(e[3]))
        for e in entries
    )


def _paired(slots, entries):
    """(slot, entry) of each value. A generator that only one of the runs has so far is left as it
    is.
    """
    here, recorded = {slot.name: slot for slot in slots}, {entry[0]: entry for entry in entries}
    for name in list(here) + list(recorded):
        if (name not in here or name not in recorded) and not name.startswith(GENERATOR):
            raise Mismatch("%s is there in one of the two runs only" % name)
    return [(here[name], recorded[name]) for name in here if name in recorded]


def _exchange():
    """The state with which a step starts."""
    slots = _slots()
    if _request.mode == "inject":
        pairs = _paired(slots, _recorded(STATE, 0))
        for slot, entry in pairs:
            slot.check(entry)
        for slot, entry in pairs:
            slot.give(entry)
        rng.resync()
        written.resync()
    elif _request.mode == "record":
        _store(STATE, 0, [slot.entry() for slot in slots])
    else:
        _request.measured[0] = 0
        _measure([slot.entry() for slot in slots], 0)


def _guarded(function, *args):
    """None, and the step left out, when it cannot be done: the job goes on as it would have."""
    try:
        return tensors.without_gradients(function)(*args)
    except (Mismatch, values_file.Damaged, OSError, ValueError, RuntimeError) as error:
        faults.pass_on(error)
        _leave_out(
            "%s: %s" % (type(error).__name__, error)
            if not isinstance(error, Mismatch)
            else str(error)
        )
        return None


def _step_starts():
    if S.worker is not None:
        return
    if _request.mode == "measure" and S.step in (1, 2):
        _guarded(_exchange)
        core.note("transplant.measured", "%d %d" % tuple(_request.measured))
        _request.measured[1] = 0
        if S.step == 2:
            _request.ended = True
    elif _request.here() and _request.kind != "data":
        if steps.noticed_late:
            _leave_out("its start was noticed only when its backward began")
        else:
            _guarded(_exchange)
    _request.number = 0


def _process_begins():
    """Step 0 begins with generators only: its first weights are not made yet, or are
    the job's own.
    """
    if _request.mode != "measure" and _request.here() and _request.kind != "data":
        _guarded(_exchange)


def delivered(data):
    """A loader delivers this batch. What is to be delivered in its place, as a tuple of one; None
    to let it pass.
    """
    if _request is None or not _request.batches or S.worker is not None:
        return None
    number, _request.number = _request.number, _request.number + 1
    return (
        _guarded(_deliver, data, number) if _request.mode == "measure" or _request.here() else None
    )


def _deliver(data, number):
    if _request.mode == "inject":
        return (_given(data, _recorded(BATCH, number)),)
    if _request.mode == "record":
        _store(BATCH, number, _leaves(data))
    elif not _request.ended:
        _measure(_leaves(data), 1)
    return None


def _after_fork():
    """The child has a file of its own; the descriptor it inherited is its parent's."""
    global _request
    if _request is not None:
        _request.file = None
        _request = Request(os.environ["TWINRUN_TRANSPLANT"])


def arm(torch):
    global _request, _torch
    text = os.environ.get("TWINRUN_TRANSPLANT")
    if not text:
        return []
    _torch = torch
    try:
        _request = Request(text)
    except ValueError:
        S.unarmed.append("transplant (TWINRUN_TRANSPLANT is not understood)")
        return []
    S.on_begin.append(_process_begins)
    S.on_step.append(_step_starts)
    S.on_fork.append(_after_fork)
    S.armed.append("transplant")
    return []
