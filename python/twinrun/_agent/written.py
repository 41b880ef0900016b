# SPDX-License-Identifier: Apache-2.0
"""Weights and buffers that something else than an optimizer's step has written.

The records at the end of a step say what the optimizer left. A line of the job may write to a
weight afterwards (`p.data.mul_()`, `copy_()`, a NumPy view, a moving average), and then the next
forward computes on something that no record shows: it would be blamed for the line. So the weights
of a model are digested again where they are about to be used: when its forward begins, when a
backward begins, and before the optimizer steps. Where a digest is another one than at the last
look, the weight is recorded there, whole.

A large weight is looked at whole in the first steps of a process only; later at a few of its
elements, which take turns, and at its version counter. From then on nobody knows that it was not
written to, and a note says so: "written.unseen".
"""

import ctypes
import struct
import sys
import threading

from . import core, faults, naming, parts, refs, swift, tensors
from .core import S, T
from .native import BACKWARD, FORWARD, SKETCH, STATS, TENSORS, WEIGHT

PROBE = 4096  # bytes of a large tensor that are looked at in one step
WHOLE_BYTES = 64 << 20  # of one model's large tensors, in the first steps

_generation = 0  # how many lists of tensors were looked at for the first time
_noted = set()  # labels of models of which not everything is seen


class Row:
    """One tensor, and how it was when it was looked at last."""

    __slots__ = ("name", "reference", "key", "address", "count", "size", "part", "version", "moved")

    def __init__(self, name, reference):
        self.name, self.reference = name, reference
        # finds it where weak references are gone, but who holds it is not
        self.key = id(reference())
        self.address = self.count = self.version = None
        self.size = 0  # bytes; 0 for what cannot be read where it lies
        self.part = None  # (first byte, bytes) where not all of it is digested
        self.moved = True  # since its region was written down

    def place(self, t):
        """Where it lies now. Returns whether it is readable."""
        address, count = t.data_ptr() if type(t) in tensors._plain else 0, t.numel()
        if address != self.address or count != self.count:
            self.moved = True
            memory = (
                tensors._memory(t) if address and tensors._simple(t) and t.is_contiguous() else None
            )
            size = count * t.element_size() if memory else 0
            self.address, self.count, self.size = address, count, size
        return self.size > 0 or count == 0


class Watch:
    """The tensors of one list [(name, weak reference, class of the owner)], and what they held at
    the last look.
    """

    def __init__(self, found, label):
        global _generation
        _generation += 1
        self.source, self.label = found, label
        self.rows = [Row(name, reference) for name, reference, _owner in found]
        self.turn = 0
        self.thread = None
        self.epoch = 0
        self.regions = (ctypes.c_uint64 * (2 * len(self.rows) or 1))()
        self.digests = ctypes.create_string_buffer(8 * len(self.rows) or 1)
        self.known = b""
        # what the last look has found, where the swift path has it: rows, turn and digests here are
        # of an earlier look then
        self.swift = None
        self.size = 0  # bytes of all
        self.large = False  # some of them are looked at in part, or will be
        self.look()

    def look(self):
        """Takes what the tensors hold now for known."""
        self.thread, self.epoch = threading.get_ident(), S.interrupted
        if self.swift is not None:
            if self._look_swiftly():
                return
            self._go_on()
        self.turn += 1
        whole = S.step < parts.TURNS and sum(row.size for row in self.rows) <= WHOLE_BYTES
        present = self._tensors()
        for row, t in zip(self.rows, present):
            if t is None:
                row.size, row.address, row.part, row.moved = 0, None, None, True
                continue
            if not row.place(t):
                self._note("cannot be read where they lie", S.step)
            if row.part is not None:
                row.part, row.moved = None, True
            if row.count >= parts.LARGE and row.size and not whole:
                self._note("are looked at in part", S.step + 1)
                row.part, row.moved = (self.turn * PROBE * 37 % row.size & ~63, PROBE), True
            if row.part is not None or not row.size:
                row.version = version(t)
        self.known = self._digest(present)
        self._hand_over()

    def _hand_over(self):
        """To the swift path, where each of them can be read where it lies."""
        rows = self.rows
        if not swift.ON or not rows or not all(row.size for row in rows):
            return
        self.size = sum(row.size for row in rows)
        self.large = any(row.count >= parts.LARGE for row in rows)
        self.swift = swift.new_watch(
            [
                (
                    row.reference,
                    row.address,
                    row.count,
                    row.size,
                    -1 if row.part is None else row.part[0],
                    row.version or 0,
                )
                for row in rows
            ],
            list(struct.unpack("=%dQ" % len(rows), self.known[: 8 * len(rows)])),
            self.turn,
        )

    def _look_swiftly(self):
        whole = S.step < parts.TURNS and self.size <= WHOLE_BYTES
        if self.large and not whole and self.label not in _noted:
            return False  # there is something to be noted
        return swift.look(self.swift, parts.LARGE, whole)

    def _go_on(self):
        """From what the swift path knows."""
        held, self.swift = self.swift, None
        self.turn, *found = swift.seen(held)
        known = []
        for i, row in enumerate(self.rows):
            partly, first, row.version, digest = found[4 * i : 4 * i + 4]
            row.part, row.moved = ((first, PROBE) if partly else None), True
            known.append(digest)
        self.known = struct.pack("=%dQ" % len(known), *known)

    def _tensors(self):
        """What is left of them. Held by the caller until they are digested: another thread may let
        go of them.
        """
        return [row.reference() for row in self.rows]

    def _digest(self, _present):
        regions = self.regions
        for i, row in enumerate(self.rows):
            if not row.moved:
                continue
            row.moved = False
            if row.part is None:
                regions[2 * i : 2 * i + 2] = row.address or 0, row.size
            else:
                first, size = row.part
                regions[2 * i : 2 * i + 2] = (
                    row.address + first,
                    max(0, min(size, row.size - first)),
                )
        S.lib.quick_digests(regions, len(self.rows), self.digests)
        return self.digests.raw

    def _note(self, what, step):
        if self.label not in _noted:
            _noted.add(self.label)
            core.note("written.unseen", "%d %s %s" % (step, self.label, what))

    def check(self, phase, op):
        """Records what was written since the last look. What it holds counts, not where it lies
        now: that may be chance.
        """
        if self.thread != threading.get_ident():
            self._note("are used by several threads", S.step)
            self.look()
            return
        if self.epoch != S.interrupted:
            self._note("were not looked at when a signal handler's exception came", S.step)
            self.look()
            return
        if self.swift is not None:
            if swift.check(self.swift):
                return
            self._go_on()
        if not self.rows:
            return
        present = self._tensors()
        suspects = self._moved(present)
        now, known = self._digest(present), self.known
        if now != known:
            suspects.update(
                i
                for i in range(len(self.rows))
                if now[8 * i : 8 * i + 8] != known[8 * i : 8 * i + 8]
            )
        if suspects:
            self._record(sorted(suspects), phase, op)
            self.look()

    def differs(self, i, t):
        """Whether the tensor of row i holds something else than at the last look, which stays as it
        was.
        """
        if self.swift is not None:
            self._go_on()
        row = self.rows[i]
        if row.part is not None or not row.size:
            return version(t) != row.version
        memory = tensors.contiguous_bytes(t)
        return (
            memory is None
            or S.lib.quick_digest(*memory).to_bytes(8, sys.byteorder)
            != self.known[8 * i : 8 * i + 8]
        )

    def _moved(self, present):
        """Finds them again where they lie now; returns which of those that are not digested whole
        have another version.
        """
        suspects = set()
        for i, (row, t) in enumerate(zip(self.rows, present)):
            if t is None:
                row.size, row.address, row.part, row.moved = 0, None, None, True
                continue
            if t.data_ptr() != row.address if type(t) in tensors._plain else True:
                row.place(t)
            if (row.part is not None or not row.size) and version(t) != row.version:
                suspects.add(i)
        return suspects

    def _record(self, places, phase, op):
        pending = tensors.pending()
        for i in places:
            t = self.rows[i].reference()
            if t is None:
                continue
            name, label = naming.parameter(t) or (self.rows[i].name, self.label)
            pending.add(phase, WEIGHT, name, t, label, op, flags=STATS | SKETCH)
        pending.flush()


def generation():
    """Another number once a model, or parameters of one, are known that were not."""
    return _generation


def version(t):
    try:
        return t._version
    except RuntimeError as error:
        faults.pass_on(error)
        return 0  # made in inference mode, where nothing is counted


def _op():
    return T.optimizers[-1].op if T.optimizers else "written"


# ---------------------------------------------------------------- when to look


def entering(root):
    """The forward of a model begins."""
    if S.level < TENSORS:
        return
    if T.entered is None:
        T.entered = {}
    T.entered[root.label] = root
    for watch in root.watches:
        watch.check(FORWARD, _op())


def announced(root):
    """Its tensors have just been recorded, or are known."""
    if S.level < TENSORS:
        return
    if not root.watches or root.watches[0].source is not root.parameters:
        small = [
            row for row in root.buffers if row[1]() is not None and row[1]().numel() < parts.LARGE
        ]
        root.watches = (Watch(root.parameters, root.label), Watch(small, root.label))


def left(root):
    """Its forward has ended, and may have written to buffers."""
    if root.watches and root.watches[1].rows:
        root.watches[1].look()


def using(raw):
    """A backward or a step of an optimizer begins. `raw`: the watches of parameters that belong to
    no model.
    """
    for root in list((T.entered or {}).values()):
        if root.watches:
            root.watches[0].check(BACKWARD, _op())
    for watch in raw:
        watch.check(BACKWARD, _op())


def stepped(followed, parameters):
    """An optimizer has written to its parameters."""
    if followed.watched_at != _generation:
        own = {id(p) for p in parameters}
        seen = set()
        followed.watches = []
        for root in list(naming.roots.values()):
            if root.watches and any(id(row[1]()) in own for row in root.parameters):
                followed.watches.append(root.watches[0])
                seen.update(id(row[1]()) for row in root.parameters)
        rest = [
            (name[0], refs.to(p), "")
            for name, p in zip(followed.names, parameters)
            if id(p) not in seen
        ]
        followed.raw = (Watch(rest, followed.label),) if rest else ()
        followed.watched_at = _generation
    for watch in followed.watches:
        watch.look()
    for watch in followed.raw:
        watch.look()


def written_by_hand(roots):
    """A loop without an optimizer has changed its weights, which is its step."""
    for root in list(roots):  # threads share the steps
        for watch in root.watches:
            watch.look()


def at_end():
    """The process ends: what was written since the last look is not what an optimizer left."""
    if S.level < TENSORS:
        return
    for root in list(naming.roots.values()):
        for watch in root.watches:
            watch.check(FORWARD, "written")


def behind_the_steps(pending, followed, parameters):
    """The same for the parameters of an optimizer that is being freed, where weak references to
    them may be gone. Nothing is taken for known: who uses them next is to find it, too.
    """
    places = {
        watch.rows[i].key: (watch, i)
        for watch in (*followed.watches, *followed.raw)
        for i in range(len(watch.rows))
    }
    for (name, scope, _op, _site), p in zip(followed.names, parameters):
        watch, i = places.get(id(p), (None, 0))
        if (
            watch is not None
            and watch.thread == threading.get_ident()
            and watch.epoch == S.interrupted
            and watch.differs(i, p)
        ):
            pending.add(FORWARD, WEIGHT, name, p, scope, "written", flags=STATS | SKETCH)


def resync():
    """It was us who wrote to them."""
    written_by_hand(list(naming.roots.values()))


def step_ended():
    T.entered = None


def _after_fork():
    _noted.clear()
    T.entered = None
    for root in naming.roots.values():
        root.watches = ()


def arm():
    S.on_fork.append(_after_fork)
