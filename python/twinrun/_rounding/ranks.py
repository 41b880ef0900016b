# SPDX-License-Identifier: Apache-2.0
"""Several ranks as one arm: their recordings joined where they meet in collectives, and what the
ranks hold of a value together.
"""

import torch

import bounds
from bounds import U, Unknown, gamma

SUMS = ("allreduce_", "allreduce_coalesced_", "reduce_scatter_", "_reduce_scatter_base_")


class Joined:
    """values and operations of all ranks, in an order in which each could have been made."""

    def __init__(self, recordings):
        self.values, self.operations = [], []
        self.ranks = len(recordings)
        gaps = ["rank %d: %s" % (r, one.gap) for r, one in recordings.items() if one.gap]
        self.gap = "; ".join(gaps) or None
        self.alone = None  # a collective that not all its ranks came to
        for rank, one in recordings.items():
            for thing in (*one.values, *one.operations):
                thing.rank = rank
        self._join(recordings)
        self.values = [v for one in recordings.values() for v in one.values if v.maker is None]
        for number, op in enumerate(self.operations):
            op.number = number
            self.values += op.outs
        for number, value in enumerate(self.values):
            value.number = number

    def _join(self, recordings):
        left = {rank: list(reversed(one.operations)) for rank, one in recordings.items()}
        moved = True
        while moved:
            moved = False
            for rank, operations in left.items():
                while operations and operations[-1].members is None:
                    self.operations.append(operations.pop())
                    moved = True
                if operations and self._meet(left, operations[-1]):
                    moved = True
        stuck = next((ops[-1] for _rank, ops in sorted(left.items()) if ops), None)
        if stuck is not None:
            self.alone = "%s at %s has no counterpart on another rank" % (stuck.name, stuck.site)
            for operations in left.values():
                self._drop(operations)

    def _drop(self, operations):
        """What comes behind a collective that cannot be joined is not looked at."""
        gone = {id(op) for op in operations}
        for op in operations:
            for value in op.inputs:
                value.readers = [r for r in value.readers if id(r) not in gone]

    def _meet(self, left, op):
        """All members of op's group stand at it: each gets what all give."""
        first = [left[rank][-1] for rank in op.members if left.get(rank)]
        if len(first) != len(op.members):
            return False
        if any(o.name != op.name or o.members != op.members for o in first):
            return False
        shares = [list(o.inputs) for o in first]
        if len({tuple(tuple(v.data.shape) for v in share) for share in shares}) != 1:
            return False
        for one in first:
            one.shares = shares
            one.inputs = [v for share in shares for v in share]
            for value in one.inputs:
                value.readers.append(one)
            left[one.rank].pop()
            self.operations.append(one)
        return True


def _total(parts, kind, unit, tiny):
    """(value, bound) of a reduction over ranks."""
    errors = [bounds.error_of(t) for t in parts]
    stacked = torch.stack([t.double() for t in parts])
    if kind in ("max", "min"):
        made = stacked.amax(0) if kind == "max" else stacked.amin(0)
        return made, torch.stack(errors).amax(0)
    error = sum(errors)
    error = error + gamma(len(parts) + 1, unit) * (stacked.abs().sum(0) + error) + tiny
    if kind == "avg":
        return stacked.sum(0) / len(parts), error / len(parts)
    return stacked.sum(0), error


def _kind(shares, slot, out, cut):
    """Which reduction it was, by its numbers: the call does not show it."""
    parts = [cut(share, slot) for share in shares]
    if len(parts) == 1:
        return "sum"
    unit = U.get(out.dtype, U[torch.float32])
    fitting = []
    for kind in ("sum", "avg", "max", "min"):
        value, error = _total([p.double() for p in parts], kind, unit, 0.0)
        near = (value - out.double()).abs() <= error + 2 * unit * value.abs()
        if bool((near | (value == out.double()) | torch.isnan(value)).all()):
            fitting.append(kind)
    if not fitting:
        raise Unknown("a reduction that is no sum, mean, maximum or minimum")
    return fitting[0]


def run(op, of, unit, tiny):
    """What a collective gives, for each of op.outs: (value, bound) in float64."""
    short = op.name.split(".")[1]
    if op.shares is None:
        raise Unknown("%s: the other ranks' part is missing" % op.name)
    mine = op.members.index(op.rank)
    made = []
    for out in op.outs:
        if short in SUMS:

            def cut(share, slot):
                if "scatter" in short:
                    whole = torch.cat([t.flatten() for t in share])
                    return whole.chunk(len(op.members))[mine].reshape(out.data.shape)
                return share[slot]

            recorded = [[v.data for v in share] for share in op.shares]
            kind = _kind(recorded, out.slot, out.data, cut)
            carried = [[of(v) for v in share] for share in op.shares]
            parts = [cut(share, out.slot) for share in carried]
            for part, share in zip(parts, carried):
                errors = [bounds.error_of(t) for t in share]
                part._error = cut(errors, out.slot)
            made.append(_total(parts, kind, unit, tiny))
            continue
        if short == "broadcast_":
            given = of(op.shares[op.root][out.slot])
            made.append((given, bounds.error_of(given)))
        elif short in ("allgather_", "_allgather_base_"):
            given = [of(v) for share in op.shares for v in share]
            errors = [bounds.error_of(t) for t in given]
            if short == "allgather_":
                made.append((given[out.slot], errors[out.slot]))
            else:
                whole = torch.cat([t.flatten() for t in given])
                error = torch.cat([e.flatten() for e in errors])
                made.append((whole.reshape(out.data.shape), error.reshape(out.data.shape)))
        else:
            raise Unknown(op.name)
    return made
