# SPDX-License-Identifier: Apache-2.0
"""Gradients as an optimizer reads them, and which of them are not what the backward left.

Between the two a line of the job may write to them: a clip, a scaler's division, noise, `p.grad =
p.grad * x`. What the optimizer computes then follows from that line, and no backward may be blamed
for it. So when a backward ends, each gradient's object, place, and version counter are kept, and
held against what is there when the optimizer steps; a quick digest, too, which writes through
`.data` do not escape: of each in the first steps of a process, later of those that were written to
before, and of one more, which takes turns. A gradient that was written since is recorded in phase
optimizer, operation `written`; the record in phase backward is then what the backward left. For
that it is digested when the backward ends: in the first step always, later where it was seen to be
written before. Elsewhere, what the backward left of it is not known. From the first step on in
which not all of them are digested, no backward of these gradients is an origin: a note
"gradient.unseen" says so.
"""

import ctypes
import struct
import threading

from . import core, faults, naming, parts, refs, swift, tensors, written
from .core import S, T
from .native import BACKWARD, DIGESTED, GRADIENT, OPTIMIZER, SKETCH, STATS

STATS_EVERY = 4  # steps; statistics do not enter the value hash
ZEROS = 1 << 16  # bytes that are held against zeros at one time
HOLD = 16  # backwards before an optimizer's first step; an optimizer may never step

_backward_in = set()  # threads in which a backward has ended
_zeros = []  # the digest of ZEROS zeros


def in_backward():
    task = getattr(tensors._torch._C, "_current_graph_task_id", None)
    return task() != -1 if task is not None else T.backward > 0


def _row(gradient):
    """What tells whether it is still the same: weak reference, address, version."""
    return refs.to(gradient), tensors.address(gradient), written.version(gradient)


def _rows(gradients):
    try:
        return [None if g is None else (refs.Ref(g), g.data_ptr(), g._version) for g in gradients]
    except RuntimeError as error:  # a sparse one has no address, one of inference mode no version
        faults.pass_on(error)
        return [None if g is None else _row(g) for g in gradients]


def _is_still(row, gradient):
    return (
        row is not None
        and row[0]() is gradient
        and tensors.address(gradient) == row[1]
        and written.version(gradient) == row[2]
    )


def _moved(rows, gradients):
    """Places of gradients that are another object, lie elsewhere, or have another version than
    these rows say.
    """
    try:
        return [
            i
            for i, (g, row) in enumerate(zip(gradients, rows))
            if g is not None
            and (row is None or row[0]() is not g or g._version != row[2] or g.data_ptr() != row[1])
        ]
    except RuntimeError as error:
        faults.pass_on(error)
        return [
            i
            for i, (g, row) in enumerate(zip(gradients, rows))
            if g is not None and not _is_still(row, g)
        ]


class Rows:
    """Some of an optimizer's gradients, recorded together: the names are made again only where
    others are present.
    """

    def __init__(self, phase, op):
        self.table, self.op = tensors.Table(phase, GRADIENT), op
        self.source = self.places = None
        self.names = []

    def record(self, names, places, gradients):
        if not places:
            return
        if names is not self.source or places != self.places:
            # what they are compared by comes last: an exception of the job's may come in between
            self.names = [(names[i][0], names[i][1], self.op, "") for i in places]
            self.table.places = places
            self.source, self.places = names, places
        self.table.record(self.names, [gradients[i] for i in places], _flags())
        core.saw("gradient")


def _flags():
    return STATS | SKETCH if S.step % STATS_EVERY == 0 else SKETCH


class Left:
    """What the backwards left to the parameters of one optimizer since its last step."""

    def __init__(self, optimizer):
        self.reference = refs.to(optimizer)
        self.ids = self.names = ()  # of the parameters, when the optimizer stepped last
        self.rows = []  # (weak reference, address, version) of each gradient, or None
        # the same where the swift path has looked last; rows and what is digested are not known
        # here then
        self.swift = None
        self.swift_size = 0  # parameters
        self.probed = []  # places of those that are digested
        self.regions = (ctypes.c_uint64 * 2)()
        self.digests = ctypes.create_string_buffer(8)
        self.known = b""
        self.turn = self.epoch = 0
        self.noted = False  # it was said since when not all of them are digested
        self.stepped = False  # the optimizer has stepped since
        self.first = True  # it has never stepped
        self.written = set()  # places of gradients that something has written to
        # places of those that were recorded when a backward ended, since the last step
        self.shown = set()
        self.held_of = ()  # ids of the parameters that `held` is of
        self.holding = HOLD  # so many backwards more
        # (place, dtype, elements, shape, digest) of what each backward before the first step left
        self.held = []
        self.before, self.after = Rows(BACKWARD, ""), Rows(OPTIMIZER, "written")

    def look(self, parameters, gradients):
        """A backward has ended."""
        self._go_on()
        old, self.rows = self.rows, _rows(gradients)
        self.turn += 1
        self.stepped, self.epoch = False, S.interrupted
        self._aim(gradients)
        self.known = self._digest()
        if not self.first and not self.written:
            return
        fresh = _moved(old if len(old) == len(gradients) else [None] * len(gradients), gradients)
        ids = list(map(id, parameters))
        if self.first:
            self._hold(ids, fresh, gradients)
        elif ids == self.ids:
            places = [i for i in fresh if i in self.written and _plain(gradients[i])]
            self.before.record(self.names, places, gradients)
            self.shown.update(places)

    def look_swiftly(self, parameters):
        """look(), where no more than one gradient is to be digested. False: it takes look()."""
        if not swift.ON or self.first or self.written or not self.noted or S.step < parts.TURNS:
            return False
        held = self.swift
        if held is None or self.swift_size != len(parameters):
            held, self.swift_size = swift.new_left(len(parameters)), len(parameters)
        if held is None or not swift.left(held, parameters, self.turn + 1):
            return False
        self.swift = held
        self.turn += 1
        self.stepped, self.epoch = False, S.interrupted
        return True

    def _go_on(self):
        """From what the swift path knows."""
        if self.swift is None:
            return
        held, self.swift = self.swift, None
        place, address, size, digest, *found = swift.rows_of(held)
        self.rows = [
            None if found[i] is None else tuple(found[i : i + 3]) for i in range(0, len(found), 3)
        ]
        self.probed = [place]
        self.regions[0:2] = address, size
        self.known = struct.pack("=Q", digest)

    def _aim(self, gradients):
        """Sets the regions that are digested: all that can be read where it lies, or a
        part of it.
        """
        count, early = len(gradients), S.step < parts.TURNS
        self.probed = (
            list(range(count))
            if early
            else sorted(i for i in self.written | {self.turn % (count or 1)} if i < count)
        )
        if len(self.regions) < 2 * len(self.probed):
            # first the digests: regions without room for theirs would be written past the end
            self.digests = ctypes.create_string_buffer(8 * count)
            self.regions = (ctypes.c_uint64 * (2 * count))()
        room = written.WHOLE_BYTES if early else 0
        for k, i in enumerate(self.probed):
            address, size = (
                tensors.contiguous_bytes(gradients[i]) or (0, 0)
                if gradients[i] is not None
                else (0, 0)
            )
            room -= size
            if size > written.PROBE and room < 0:
                first = self.turn * written.PROBE * 37 % size & ~63
                address, size = address + first, min(written.PROBE, size - first)
                early = False
            self.regions[2 * k : 2 * k + 2] = address, size
        if not early:
            self._note()

    def _note(self):
        if not self.noted:
            self.noted = True
            core.note(
                "gradient.unseen", "%d %s" % (S.step, naming.optimizer_labels.of(self.reference()))
            )

    def _digest(self):
        if not self.probed:
            return b""
        S.lib.quick_digests(self.regions, len(self.probed), self.digests)
        return self.digests.raw[: 8 * len(self.probed)]

    def _hold(self, ids, places, gradients):
        """Digests of what the backward left, in case that something writes to it."""
        if ids != self.held_of:
            self.held, self.held_of = [], ids
        self.holding -= 1
        if self.holding < 0:
            self.held = []
            return
        pending, rows = tensors.Pending(), []
        for i in places:
            if _plain(gradients[i]):
                pointer, code, count, shape, strides = tensors._memory(gradients[i])
                pending.put(0, pointer, code, count, shape, strides, pending.place(gradients[i]))
                rows.append((i, code, count, shape))
        for row, digest in zip(rows, parts.digests(pending)):
            self.held.append((*row, digest))

    def changed(self, parameters, gradients):
        """Places of the gradients that are not what a backward left."""
        self._go_on()
        if (self.rows and self.epoch != S.interrupted) or in_backward():
            return []
        unseen = id(self.reference()) in (T.not_looked_at or ()) or _backward_in - {
            threading.get_ident()
        }
        if not self.rows and unseen:  # a backward has ended whose gradients were not looked at
            self._note()
            return []
        if len(self.rows) != len(gradients):  # no backward was seen to end
            changed = [i for i, gradient in enumerate(gradients) if gradient is not None]
        else:
            changed = _moved(self.rows, gradients)
            changed = sorted(self._other(changed, gradients).union(changed))
        known = T.taken or {}
        return [i for i in changed if not _is_still(known.get(id(parameters[i])), gradients[i])]

    def _other(self, moved, gradients):
        """Places of those, of the ones that are digested, that hold something else; what has moved
        may be gone and is not read.
        """
        moved = set(moved)
        for k, i in enumerate(self.probed):
            if i in moved or gradients[i] is None:
                self.regions[2 * k : 2 * k + 2] = 0, 0
        now, known = self._digest(), self.known
        if now == known:
            return set()
        return {
            i
            for k, i in enumerate(self.probed)
            if gradients[i] is not None and now[8 * k : 8 * k + 8] != known[8 * k : 8 * k + 8]
        }

    def _release(self, places):
        """Records what the backwards before the first step left of these."""
        pending = tensors.Pending()
        for i, code, count, shape, digest in self.held:
            if i in places:
                name, scope = self.names[i][:2]
                pending.keep.append(digest)
                pending.put(
                    core.series(BACKWARD, GRADIENT, name, scope, "", "", ""),
                    ctypes.addressof(digest),
                    code,
                    count,
                    shape,
                    None,
                    DIGESTED,
                )
        pending.flush()

    def step_begins_swiftly(self, names, parameters):
        """step_begins(), where the optimizer reads what the backward left. False, and nothing is
        recorded: it takes step_begins().
        """
        table = self.before.table.swift
        if (
            self.swift is None
            or table is None
            or names is not self.names
            or names is not self.before.source
            or self.shown
            or self.written
            or self.epoch != S.interrupted
            or self.before.table.epoch != S.interrupted
            or in_backward()
        ):
            return False
        done = swift.step(self.swift, table, parameters, _flags())
        if done:
            core.saw("gradient")
        return done

    def step_begins(self, names, parameters, gradients):
        """Records the gradients as the optimizer reads them, and what the backward left of those
        that were written since.
        """
        ids = list(map(id, parameters))
        self.names = names
        if ids != self.ids:
            self.written.clear()
            self.ids = ids
        changed = self.changed(parameters, gradients)
        apart = self.shown.union(changed)
        if self.first and ids == self.held_of:
            self._release(apart)
        self.before.record(
            names,
            [i for i, gradient in enumerate(gradients) if gradient is not None and i not in apart],
            gradients,
        )
        self.after.record(names, changed, gradients)
        self.written.update(changed)

    def in_step(self, names, gradients):
        """A backward inside of a closure of step(): what it left, as it left it."""
        self.before.record(
            names, [i for i, gradient in enumerate(gradients) if gradient is not None], gradients
        )

    def step_ends(self):
        self.stepped, self.first, self.held = True, False, []
        self.shown.clear()

    def is_open(self):
        """Whether a backward has ended since the optimizer stepped last."""
        return bool(self.rows or self.swift) and not self.stepped

    def backward_begins(self, parameters, gradients):
        """It adds to gradients: what was written to them since the last one, unless they were set
        to zero.
        """
        if list(map(id, parameters)) != self.ids:
            return
        changed = [i for i in self.changed(parameters, gradients) if not _is_zero(gradients[i])]
        self.after.record(self.names, changed, gradients)
        self.written.update(changed)


def _plain(gradient):
    """Whether what a backward left of it can be held, and recorded under the same name as later."""
    return (
        type(gradient) in tensors._plain
        and tensors.readable(gradient)
        and gradient.is_contiguous()
        and gradient.data_ptr() != 0
        and gradient.dtype in tensors._codes
    )


def _is_zero(gradient):
    """Whether it holds zeros only; also where that cannot be read, since to set it to zero is what
    most jobs do.
    """
    memory = tensors.contiguous_bytes(gradient)
    if memory is None:
        return True
    address, size = memory
    if not _zeros:
        _zeros.append(S.lib.quick_digest(bytes(ZEROS), ZEROS))
    rest = size % ZEROS
    count = size // ZEROS
    regions, found = (ctypes.c_uint64 * (2 * count or 1))(), (ctypes.c_uint64 * (count or 1))()
    for i in range(count):
        regions[2 * i : 2 * i + 2] = address + i * ZEROS, ZEROS
    S.lib.quick_digests(regions, count, found)
    return set(found[:count]) <= set(_zeros) and not any(
        ctypes.string_at(address + count * ZEROS, rest)
    )


def taken(inputs, results):
    """torch.autograd.grad has made gradients, which the job may assign: they are what a backward
    left.
    """
    if T.taken is None:
        T.taken = {}
    for tensor, gradient in zip(inputs, results):
        if tensors.is_tensor(tensor) and tensors.is_tensor(gradient) and tensor.is_leaf:
            T.taken[id(tensor)] = _row(gradient)


def left_to(optimizer):
    """As this thread knows it: another one may be in the midst of a backward of its own."""
    if T.left is None:
        T.left = {}
    found = T.left.get(id(optimizer))
    if found is None or found.reference() is not optimizer:
        found = T.left[id(optimizer)] = Left(optimizer)
    return found


def any_open():
    """Whether a backward of this thread has ended that no step has followed."""
    return T.left is not None and any(left.is_open() for left in list(T.left.values()))


def not_looked_at(optimizers):
    """A backward has ended in this thread, which may not read the gradients of these: another one
    may be in the midst of its own.
    """
    _backward_in.add(threading.get_ident())
    T.not_looked_at = {id(optimizer) for optimizer in optimizers}


def step_ended():
    T.taken = None
    for key in [key for key, left in (T.left or {}).items() if left.reference() is None]:
        del T.left[key]


def _after_fork():
    _backward_in.clear()
    T.left = T.taken = T.not_looked_at = None


def arm():
    S.on_fork.append(_after_fork)
