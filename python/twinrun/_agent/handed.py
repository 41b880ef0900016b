# SPDX-License-Identifier: Apache-2.0
"""What is handed on between a loader, the models and the losses by lines of the job, where no
record shows it.

A batch is recorded when the loader delivers it, and not again when a model gets it; but a line may
write to it in between. The output of a model is recorded, and not again when a loss gets it; but a
line may have made another tensor of it. So what was delivered and what models gave out is
remembered: object, version counter and a quick digest of some of its bytes. A batch that was
written to is recorded again where a model gets it. A module without weights of which nobody saw the
inputs is noted ("input.unseen"): what it gives out has no origin in it.
"""

import ctypes

from . import core, nested, refs, tensors, written
from .core import S, T

PROBE, PROBES = 4096, 16  # bytes of a large tensor that are looked at, in so many places
OUTPUTS = 64  # remembered

_turn = 0
_noted = set()


class Seen:
    """A tensor that was recorded."""

    __slots__ = ("reference", "address", "version", "digests")

    def __init__(self, t, probed):
        self.reference, self.address, self.version = (
            refs.to(t),
            tensors.address(t),
            written.version(t),
        )
        self.digests = _probe(t) if probed else None

    def unchanged(self, t):
        """Whether t, which is this tensor or a view of it, still holds what was recorded."""
        if written.version(t) != self.version:
            return False
        return self.digests is None or (
            tensors.address(t) == self.address and _probe(t, self.digests[0]) == self.digests
        )


def _probe(t, turn=None):
    """(turn, digests of some of its bytes), of all where it is small; None where it cannot be read
    where it lies.
    """
    global _turn
    memory = tensors.contiguous_bytes(t)
    if memory is None:
        return None
    if turn is None:
        turn = _turn = _turn + 1
    address, size = memory
    count = PROBES if size >= 2 * PROBE * PROBES else 1
    regions, found = (ctypes.c_uint64 * (2 * count))(), ctypes.create_string_buffer(8 * count)
    for i in range(count):
        length = size // count
        first = turn * PROBE * 37 % (length - PROBE) & ~63 if count > 1 else 0
        regions[2 * i : 2 * i + 2] = address + i * length + first, PROBE if count > 1 else size
    S.lib.quick_digests(regions, count, found)
    return turn, found.raw


def delivered(found):
    """A loader has delivered these [(name, value)]."""
    T.batch_step = S.step
    T.batch = [Seen(value, True) for _name, value in found if tensors.is_tensor(value)]


def gave_out(output):
    """A model has given this out, and it was recorded."""
    if type(output) in tensors._plain:
        T.outputs = [*T.outputs, Seen(output, False)][-OUTPUTS:]
        return
    found = []
    nested.walk(output, "", found)
    T.outputs = [
        *T.outputs,
        *(Seen(value, False) for _name, value in found if tensors.is_tensor(value)),
    ][-OUTPUTS:]


def in_this_step():
    """Whether the loader delivered in this step. One that reads ahead (accelerate's) has done so
    before, and the step that uses the batch would show no input.
    """
    return T.batch_step == S.step


def is_of_batch(t):
    return any(seen.reference() is t for seen in T.batch)


def of_batch(t):
    """None for a tensor of no batch; else whether it is as the loader delivered it. What has
    changed is said once.
    """
    for i, seen in enumerate(T.batch):
        if seen.reference() is t:
            same = seen.unchanged(t)
            if not same:
                T.batch[i] = Seen(t, True)
            return same
    return None


def _is_known(t):
    if not tensors.is_tensor(t):
        return False
    base = t._base
    if of_batch(t) or (base is not None and of_batch(base)):
        return True
    return any(_is_of(seen, t, base) for seen in T.outputs)


def _is_of(seen, t, base):
    thing = seen.reference()
    return thing is not None and (thing is t or thing is base) and seen.unchanged(t)


def given(label, args, kwargs):
    """A module without weights is called."""
    if label in _noted:
        return
    found, values, hidden = [], [], []
    nested.walk((args, kwargs), "", found, values, hidden=hidden)
    if hidden or not all(_is_known(value) for _name, value in found):
        unseen(label, "was given what no record shows")


def unseen(label, what):
    """What this module gives out is made of something that nobody saw, from this step on."""
    if label not in _noted:
        _noted.add(label)
        core.note("input.unseen", "%d %s %s" % (S.step, label, what))


def step_ended():
    T.outputs = ()


def _after_fork():
    _noted.clear()
    T.batch = T.outputs = ()


def arm():
    S.on_fork.append(_after_fork)
