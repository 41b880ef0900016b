# SPDX-License-Identifier: Apache-2.0
"""Gradients and optimizer state between other numbers of ranks, for twinrun.recheck: where rank 0's
record stands for all ranks of its run.

Written from docs/internals/sharded.md: it shares no code with the comparison.
"""

import re
from collections import defaultdict

from ._between import BACKWARD, STATE_OF_RANKS
from ._recorded import GRADIENT, MOMENT, OPTIMIZER, WEIGHT
from ._replicas import _groups, _shown
from ._shown import attempt_of
from .trace import OFFSET, PART

PIECE = re.compile(r"\[[0-9]+:[0-9]+\]$")
OTHER_PHASE = {BACKWARD: OPTIMIZER, OPTIMIZER: BACKWARD}

UNREDUCED = "nothing says that they were recorded behind the reduction over all ranks"
SEVERAL = "there are several of one name in a step, of other backward passes"
REWRITTEN = "something wrote to them later in the step"  # said of none: that record speaks for it
IN_ONE_RUN = (
    "something was seen to write to them behind the backward pass in one of the two runs alone"
)
ITS_OWN = "each rank holds its own"
NOT_AT_END = "not every rank recorded it at the end of the job"
NO_STEPS = "not every rank of the run recorded steps"
NO_PLACE = "no rank says where its part lies"
NOT_ADDING = "digests of its parts do not add up"


def is_part(row):
    return bool(row.flags & OFFSET) and not row.flags & PART


def tensor_at(row):
    """The key of the tensor that a record is of, also where it is a part by turns."""
    base = PIECE.sub("", row.key[2]) if row.flags & PART else row.key[2]
    return row.key[:2] + (base,) + row.key[3:]


def in_any_phase(key):
    """{key}, of a gradient in both phases in which what an optimizer reads is recorded."""
    return {key, (OTHER_PHASE[key[0]],) + key[1:]} if key[1] == GRADIENT else {key}


def owner_of(key):
    """What optimizer state is of: 0.weight of 0.weight.exp_avg, in its scope."""
    return (key[1], key[2].rsplit(".", 1)[0]) + key[3:]


def of_all_ranks(steps, run):
    """The processes of a run that do what this one of rank 0 does in its attempt: of each rank the n-th
    of its role.
    """
    role, attempt, alike = steps.info.role, attempt_of(steps), defaultdict(list)
    for s in filter(None, map(run.readable, run.traces())):
        if s.info.records and s.info.role == role and attempt_of(s) == attempt:
            alike[s.info.rank].append(s)
    if role.startswith(b"loader worker "):
        return []
    for found in alike.values():
        found.sort(key=lambda s: (s.info.start_monotonic_ns, s.trace.name))
    own = [s.trace.name for s in alike[steps.info.rank]]
    nth = own.index(steps.trace.name) if steps.trace.name in own else 0
    beside = [found[nth] for found in alike.values() if nth < len(found)]
    return [s for s in beside if s.info.steps > 0]


class Held:
    """What the processes of a run hold beside one of rank 0."""

    def __init__(self, steps, run, others):
        self.zero, self.others = steps, others
        traces = [s for s in map(run.readable, run.traces()) if s is not None]
        self.world = max((s.info.world for s in traces), default=1)
        self.groups = [
            (key[3].decode("utf-8", "surrogateescape"), members)
            for key, members in _groups(run).items()
            if key[0] == attempt_of(steps) and len(members) == self.world
        ]
        self.named = {}  # (kind, why it was not compared) -> names

    def say(self, row, why):
        self.named.setdefault((row.key[1], why), set()).add(_shown(row.key[2]))

    def names_of(self, kind, why):
        """Of the tensors that were not compared for this reason."""
        return self.named.get((kind, why), set())

    def is_reduced(self, row, step):
        """Do all ranks of the run say that they hold this gradient's parameter alike?"""
        name, scope = tensor_at(row)[2], row.key[3]
        return any(
            of == scope and self.all_say(members.values(), name, step)
            for of, members in self.groups
        )

    @staticmethod
    def all_say(members, name, step):
        said = [m.says[0][1] for m in members if len(m.says) == 1]
        if len(said) < len(members):
            return False
        first = said[0]
        for noted, m in zip(said, members):
            same = noted[:3] == first[:3] and sorted(noted.names) == sorted(first.names)
            if not same or noted.count != len(noted.names):
                return False
            if any(limit is not None and limit <= step for limit in (m.local, m.end)):
                return False
        return first.step <= step and name.encode("utf-8", "surrogateescape") in first.names

    def left_out(self, step):
        """{key of the tensor} of what does not stand for all ranks in this step; and of what was
        written to later in it, which the other run may have all the same.
        """
        at = [
            {
                (r.key, r.occurrence): r
                for r in s.rows.get(step, ())
                if r.key[:2] in STATE_OF_RANKS and r.key[1] != WEIGHT
            }
            for s in self.others
        ]
        mine = next((rows for s, rows in zip(self.others, at) if s is self.zero), None)
        if mine is None:
            return set(), set()
        tail, out, here = step >= self.zero.info.steps, set(), set()
        own = self.own_state(at)
        for s, rows in zip(self.others, at):
            for where, r in rows.items():
                if s is self.zero:
                    why = self.why_not(r, step, mine, at, tail, own)
                elif tail or is_part(r) or where in mine:
                    continue
                elif r.key[1] == GRADIENT and self.are_several(r, at):
                    why = SEVERAL
                elif r.key[1] == GRADIENT and not self.is_reduced(r, step):
                    why = UNREDUCED
                else:
                    why = ITS_OWN if owner_of(r.key) in own else ""
                if why is None:
                    continue
                if why == REWRITTEN:
                    here.add(r.key)
                else:
                    out |= in_any_phase(tensor_at(r))
                if why and why != REWRITTEN:  # else that was a reason against "same"
                    self.say(r, why)
        return out, here

    def why_not(self, r, step, mine, at, tail, own):
        """Why rank 0's record does not stand for all; None where it does. "": the ranks differ."""
        if r.key[1] == GRADIENT:
            if self.are_several(r, at):
                return SEVERAL
            later = mine.get(((OTHER_PHASE[r.key[0]],) + r.key[1:], 0))
            if later is not None and later.seq > r.seq:
                return REWRITTEN
            if self.world > 1 and not is_part(r) and not self.is_reduced(r, step):
                return UNREDUCED
        if is_part(r):
            return None
        if len(at) != self.world:
            return NO_STEPS
        theirs = [rows.get((r.key, r.occurrence)) for rows in at]
        if all(x is not None and (x.content, x.flags) == (r.content, r.flags) for x in theirs):
            return None
        for x in theirs:
            if x is None and tail:
                return NOT_AT_END
            if x is None and owner_of(r.key) in own:
                return ITS_OWN
        return ""

    @staticmethod
    def are_several(r, at):
        """Has any rank several records of this gradient in the step?"""
        return any((r.key, 1) in rows for rows in at)

    @staticmethod
    def own_state(at):
        """What the optimizer state is of that one rank holds alone, where several ranks hold such."""
        holders = defaultdict(set)
        for rank, rows in enumerate(at):
            for key, _ in rows:
                if key[1] == MOMENT:
                    holders[owner_of(key)].add(rank)
        alone = {owner: min(ranks) for owner, ranks in holders.items() if len(ranks) == 1}
        return set(alone) if len(set(alone.values())) > 1 else set()


def in_one_phase(x, y, rows_x, rows_y):
    """{key} of gradients that one run has behind the backward pass alone, the other as it left them.
    x, y: the two Held, which are told.
    """
    keys = [{r.key: r for r in rows if r.key[1] == GRADIENT} for rows in (rows_x, rows_y)]
    out = set()
    for held, mine, theirs in ((x, *keys), (y, *keys[::-1])):
        for key, row in mine.items():
            other = (OTHER_PHASE.get(key[0]),) + key[1:]
            if key not in theirs and other in theirs:
                held.say(row, IN_ONE_RUN)
                out |= in_any_phase(key)
    return out
