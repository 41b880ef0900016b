# SPDX-License-Identifier: Apache-2.0
"""Large weights and moments, in parts that take turns.

To read all of them in every step costs a small model a tenth of its time (docs/internals/measurements.md). A tensor of LARGE
elements or more is therefore cut in TURNS runs of elements, and a step records one of them, the next one in the next step: every
element is looked at once in TURNS steps. All parts are recorded where it matters most: when the tensor is first seen, in the
first TURNS steps of a process, in the last one that `--steps` lets pass, when the job saves a checkpoint, and at the end. A
record of a part says where it begins and how many elements there are, and digests of parts add up to that of the whole.
"""
import ctypes
from time import perf_counter_ns

from . import core, native, tensors
from .core import S
from .native import DIGESTED, ITEM_BYTES, PART, STATS, Items, pack_item, pack_pointer

LARGE = 65536    # elements: from here on a tensor is recorded in parts
TURNS = 16

_bounds = {}     # element count -> [(first, end) of each part]


def bounds(count):
    """The parts of a tensor: equal runs of elements that begin at multiples of 16 bytes, so that digests add up."""
    found = _bounds.get(count)
    if found is None:
        length = -(-count // TURNS)
        length += -length % 16
        found = _bounds[count] = [(i, min(i + length, count)) for i in range(0, count, length)]
    return found


def divisible(t):
    """Whether a tensor is recorded in parts: large, and one run of memory of this process."""
    return (t.numel() >= LARGE and type(t) in tensors._plain and tensors._simple(t) and t.is_contiguous()
            and t.dtype in tensors._codes and t.data_ptr() != 0)


def part_name(name, first, end):
    return "%s[%d:%d]" % (name, first, end)


def add(pending, phase, kind, name, t, scope, op, flags):
    """All parts of a tensor to pending records; a tensor that is not in parts as a whole."""
    if S.level != native.TENSORS or not divisible(t):
        pending.add(phase, kind, name, t, scope, op, flags=flags)
        return
    count, code, pointer = t.numel(), tensors._codes[t.dtype], t.data_ptr()
    width = t.element_size()
    for first, end in bounds(count):
        number = core.series(phase, kind, part_name(name, first, end), scope, op)
        pending.put(number, pointer + first * width, code, end - first, (end - first,), None, flags | PART, first, count)


class Held(tensors.Pending):
    """Pending records that are digested now and recorded later, when their tensors may be gone."""

    def __init__(self):
        super().__init__()
        self.batches = []    # (items, digests, number)

    def flush(self, links=None):
        if not self.count:
            return ()
        digests = (ctypes.c_uint64 * (2 * self.count))()
        S.lib.digests(self.items.address, self.count, digests)
        address = ctypes.addressof(digests)
        for i in range(self.count):
            pack_pointer(self.items.buffer, i * ITEM_BYTES, address + 16 * i)
            self.items.add_flags(i, DIGESTED)
        self.batches.append((self.items, digests, self.count))
        self.items = Items(16)
        self.count = self.bytes = self.kept = 0
        self.keep.clear()
        return ()

    def release(self):
        """Records them."""
        for items, _digests, count in self.batches:
            S.lib.records(items.address, count, None, 0)
        self.batches = []


class Parts:
    """Large tensors that are recorded together, step after step. Rows of the array: first part of each, second part of each..."""

    def __init__(self, phase, kind):
        self.phase, self.kind = phase, kind
        self.items = Items(16)
        self.rows = []       # (pointer, shape, dtype) of each tensor
        self.flags = []      # of each turn's rows
        self.bytes = 0       # of one turn

    def build(self, names, values, flags):
        self.rows, self.flags, self.bytes = [], [flags] * TURNS, 0
        if values and "parts" not in S.seen:
            S.seen.add("parts")
            core.note("parts", str(TURNS))
        while self.items.capacity < TURNS * len(values):
            self.items.grow()
        for i, ((name, scope, op, site), t) in enumerate(zip(names, values)):
            count, code, pointer, width = t.numel(), tensors._codes[t.dtype], t.data_ptr(), t.element_size()
            whole = ctypes.addressof(core.sizes((count,)))
            for turn, (first, end) in enumerate(bounds(count)):
                number = core.series(self.phase, self.kind, part_name(name, first, end), scope, op, site, "")
                pack_item(self.items.buffer, (turn * len(values) + i) * ITEM_BYTES, pointer + first * width, 0, whole,
                          end - first, first, number, core.layout(code, (end - first,)), flags | PART, code, 1, 0)
            self.rows.append((pointer, t.shape, t.dtype))
            self.bytes += count * width // TURNS

    def still(self, values):
        """Whether these are the tensors that the rows are of, wherever they lie now."""
        for i, (t, (pointer, shape, dtype)) in enumerate(zip(values, self.rows)):
            if t.shape != shape or t.dtype is not dtype or not t.is_contiguous():
                return False
            now = t.data_ptr()
            if now != pointer:
                if not now or not tensors._simple(t):
                    return False
                self._move(i, now, t)
        return len(values) == len(self.rows)

    def _move(self, i, now, t):
        self.rows[i] = (now, t.shape, t.dtype)
        width = t.element_size()
        for turn, (first, _end) in enumerate(bounds(t.numel())):
            pack_pointer(self.items.buffer, (turn * len(self.rows) + i) * ITEM_BYTES, now + first * width)

    def send(self, turn, everything, flags):
        """One part of each; or everything, of which this turn's parts alone have statistics: those of all steps can be compared."""
        count = len(self.rows)
        for each in range(TURNS) if everything else (turn,):
            wanted = flags if each == turn else flags & ~STATS
            if self.flags[each] != wanted:
                self.flags[each] = wanted
                for i in range(each * count, (each + 1) * count):
                    native.pack_flags(self.items.buffer, i * ITEM_BYTES + native.FLAGS_AT, wanted | PART)
        first, number = (0, count * TURNS) if everything else (turn * count, count)
        size = self.bytes * TURNS if everything else self.bytes
        began = perf_counter_ns()
        send = S.lib.records_long if size >= tensors.LONG_BYTES else S.lib.records
        send(self.items.address + first * ITEM_BYTES, number, None, 0)
        S.native_ns += perf_counter_ns() - began


class Rotating:
    """Tensors that are recorded together in every step: the small ones whole, the large ones in parts."""

    def __init__(self, phase, kind):
        self.small, self.large = tensors.Table(phase, kind), Parts(phase, kind)
        self.names = None
        self.small_names, self.small_at, self.large_at = [], [], []

    def record(self, names, values, flags, turn, everything):
        """turn: which part; everything: all of them. `names` as for tensors.Table.record."""
        if names is not self.names:
            self._split(names, values, flags)
        large = [values[i] for i in self.large_at]
        if large and not self.large.still(large):
            self._split(names, values, flags)
        if self.small_at:
            self.small.record(self.small_names, [values[i] for i in self.small_at], flags)
        if self.large_at:
            self.large.send(turn, everything, flags)

    def again(self, flags, turn, everything):
        """record() with the same names and tensors, for who knows that each is where it was."""
        if self.small_at:
            self.small.again(flags)
        if self.large_at:
            self.large.send(turn, everything, flags)

    def _split(self, names, values, flags):
        self.names = names
        self.large_at = [i for i, t in enumerate(values) if S.level == native.TENSORS and divisible(t)]
        large = set(self.large_at)
        self.small_at = [i for i in range(len(values)) if i not in large]
        self.small_names = [names[i] for i in self.small_at]
        self.large.build([names[i] for i in self.large_at], [values[i] for i in self.large_at], flags)
