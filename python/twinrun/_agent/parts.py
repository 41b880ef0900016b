# SPDX-License-Identifier: Apache-2.0
"""Large weights and moments, in parts that take turns.

To read all of them in every step costs a small model a tenth of its time
(docs/internals/measurements.md). A tensor of LARGE elements or more is therefore cut in TURNS runs
of elements, and a step records one of them, the next one in the next step: every element is looked
at once in TURNS steps. All parts are recorded where it matters most: when the tensor is first seen,
in the first TURNS steps of a process, in the last one that `--steps` lets pass, when the job saves
a checkpoint, and at the end. A record of a part says where it begins and how many elements there
are, and digests of parts add up to that of the whole.
"""

import ctypes
from time import perf_counter_ns

from . import core, device, native, swift, tensors
from .core import S
from .native import DIGESTED, ITEM_BYTES, PART, STATS, Items, pack_item, pack_pointer

LARGE = 65536  # elements: from here on a tensor is recorded in parts
TURNS = 16

STATS_EVERY = 8  # steps; statistics do not enter the value hash

_bounds = {}  # element count -> [(first, end) of each part]


def bounds(count):
    """The parts of a tensor: equal runs of elements that begin at multiples of 16 bytes, so that
    digests add up.
    """
    found = _bounds.get(count)
    if found is None:
        length = -(-count // TURNS)
        length += -length % 16
        found = _bounds[count] = [(i, min(i + length, count)) for i in range(0, count, length)]
    return found


def tell():
    """That something is recorded in parts."""
    S.seen.add("parts")
    core.note("parts", str(TURNS))


def counted(step):
    """Whether parts have statistics in this step. One step further in every round of turns, so that
    each part has its statistics in time.
    """
    return (step + step // TURNS) % STATS_EVERY == 0


def divisible(t):
    """Whether a tensor is recorded in parts: large, and one run of memory that can be read where it
    is.
    """
    return (
        t.numel() >= LARGE
        and type(t) in tensors._plain
        and tensors.readable(t)
        and t.is_contiguous()
        and t.dtype in tensors._codes
        and t.data_ptr() != 0
    )


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
        pending.put(
            number,
            pointer + first * width,
            code,
            end - first,
            (end - first,),
            None,
            flags | PART | pending.place(t),
            first,
            count,
        )


def digests(pending):
    """A digest, two words, of each tensor of pending records, which are dropped."""
    if not pending.count:
        return []
    count, found = pending.count, (ctypes.c_uint64 * (2 * pending.count))()
    if pending.devices:
        device.sender(pending.devices)
    (S.lib.digests_long if pending.devices else S.lib.digests)(pending.items.address, count, found)
    pending.drop()
    return [(ctypes.c_uint64 * 2).from_buffer(found, 16 * i) for i in range(count)]


class Held(tensors.Pending):
    """Pending records that are digested now and recorded later, when their tensors may be gone."""

    def __init__(self):
        super().__init__()
        self.batches = []  # (items, digests, number)

    def flush(self, links=None):
        if not self.count:
            return ()
        found = digests(self)
        for i, digest in enumerate(found):
            pack_pointer(self.items.buffer, i * ITEM_BYTES, ctypes.addressof(digest))
            self.items.add_flags(i, DIGESTED)
        self.batches.append((self.items, found, len(found)))
        self.items = Items(16)
        return ()

    def release(self):
        """Records them."""
        for items, _digests, count in self.batches:
            S.lib.records(items.address, count, None, 0)
        self.batches = []


class Parts:
    """Large tensors that are recorded together, step after step. Rows of the array: first part of
    each, second part of each...
    """

    def __init__(self, phase, kind):
        self.phase, self.kind = phase, kind
        self.items = Items(16)
        self.rows = []  # (pointer, shape, dtype, place_of()) of each tensor
        self.flags = []  # of each turn's rows
        self.bytes = 0  # of one turn
        self.devices = 0  # the GPUs that some of them lie on, a set
        self.swift = None  # what the rows say, for the swift path

    def build(self, names, values, flags):
        self.rows, self.flags, self.bytes, self.devices = [], [flags] * TURNS, 0, 0
        self.swift = None
        if values and "parts" not in S.seen:
            tell()
        while self.items.capacity < TURNS * len(values):
            self.items.grow()
        for i, ((name, scope, op, site), t) in enumerate(zip(names, values)):
            count, code, pointer, width = (
                t.numel(),
                tensors._codes[t.dtype],
                t.data_ptr(),
                t.element_size(),
            )
            whole = ctypes.addressof(core.sizes((count,)))
            place = tensors.place_of(t)
            self.devices |= device.bit(place)
            for turn, (first, end) in enumerate(bounds(count)):
                number = core.series(
                    self.phase, self.kind, part_name(name, first, end), scope, op, site, ""
                )
                pack_item(
                    self.items.buffer,
                    (turn * len(values) + i) * ITEM_BYTES,
                    pointer + first * width,
                    0,
                    whole,
                    end - first,
                    first,
                    number,
                    core.layout(code, (end - first,)),
                    flags | PART | place,
                    code,
                    1,
                    0,
                )
            self.rows.append((pointer, t.shape, t.dtype, place))
            self.bytes += count * width // TURNS
        self._hand_over()

    def _hand_over(self):
        if swift.ON and self.rows and not self.devices:
            self.swift = swift.new_table(
                None, 0, 0, 0, [(shape, dtype, None, at, 0) for at, shape, dtype, _ in self.rows]
            )

    def still(self, values):
        """Whether these are the tensors that the rows are of, wherever they lie now."""
        if self.swift is not None and swift.still(self.swift, values):
            return True
        self.swift = None
        for i, (t, (pointer, shape, dtype, place)) in enumerate(zip(values, self.rows)):
            if t.shape != shape or t.dtype is not dtype or not t.is_contiguous():
                return False
            now = t.data_ptr()
            if now != pointer:
                if not now or not tensors.readable(t) or tensors.place_of(t) != place:
                    return False
                self._move(i, now, t)
        self._hand_over()
        return len(values) == len(self.rows)

    def _move(self, i, now, t):
        self.rows[i] = (now, t.shape, t.dtype, self.rows[i][3])
        width = t.element_size()
        for turn, (first, _end) in enumerate(bounds(t.numel())):
            pack_pointer(
                self.items.buffer, (turn * len(self.rows) + i) * ITEM_BYTES, now + first * width
            )

    def send(self, turn, everything, flags):
        """One part of each; or everything, of which this turn's parts alone have statistics: those
        of all steps can be compared.
        """
        count = len(self.rows)
        for each in range(TURNS) if everything else (turn,):
            wanted = flags if each == turn else flags & ~STATS
            if self.flags[each] != wanted:
                self.flags[each] = wanted
                for i, row in enumerate(self.rows, each * count):
                    native.pack_flags(
                        self.items.buffer, i * ITEM_BYTES + native.FLAGS_AT, wanted | PART | row[3]
                    )
        first, number = (0, count * TURNS) if everything else (turn * count, count)
        size = self.bytes * TURNS if everything else self.bytes
        began = perf_counter_ns()
        tensors.sender(size, self.devices)(self.items.address + first * ITEM_BYTES, number, None, 0)
        S.native_ns += perf_counter_ns() - began


class Rotating:
    """Tensors that are recorded together in every step: the small ones whole, the large ones in
    parts.
    """

    def __init__(self, phase, kind):
        self.small, self.large = tensors.Table(phase, kind), Parts(phase, kind)
        self.names, self.epoch = None, 0
        self.small_names, self.small_at, self.large_at = [], [], []

    def record(self, names, values, flags, turn, everything):
        """turn: which part; everything: all of them. `names` as for tensors.Table.record."""
        if names is not self.names or self.epoch != S.interrupted:
            self._split(names, values, flags)
        large = [values[i] for i in self.large_at]
        if large and not self.large.still(large):
            self._split(names, values, flags)
        if self.small_at:
            self.small.record(self.small_names, [values[i] for i in self.small_at], flags)
        if self.large_at:
            self.large.send(turn, everything, flags)

    def again(self, flags, turn, everything):
        """record() with the same names and tensors, for who knows that each is where it was. False,
        and nothing is recorded: it takes record().
        """
        if self.small_at and not self.small.again(flags):
            return False
        if self.large_at:
            self.large.send(turn, everything, flags)
        return True

    def _split(self, names, values, flags):
        self.names, self.epoch = names, S.interrupted
        self.large_at = [
            i for i, t in enumerate(values) if S.level == native.TENSORS and divisible(t)
        ]
        large = set(self.large_at)
        self.small_at = [i for i in range(len(values)) if i not in large]
        self.small_names = [names[i] for i in self.small_at]
        self.large.build(
            [names[i] for i in self.large_at], [values[i] for i in self.large_at], flags
        )
