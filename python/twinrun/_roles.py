# SPDX-License-Identifier: Apache-2.0
"""Ranks by role, for twinrun.recheck: which rank of a run has the place in the job's mesh that a rank
of another run has, from what the processes of both say, and names that hold ranks read so.
"""

import math
import re
from collections import defaultdict

from ._shown import attempt_of
from .trace import PHASES

COLLECTIVE = PHASES.index("collective")
DIMENSION = re.compile(r"([^=]{1,64})=([0-9]{1,9})/([0-9]{1,9})")
PEER = re.compile(r"( (?:to|from) rank )([0-9]{1,9})")


def _place(text):
    """{name: (place, size)} of a note; None where it is none."""
    found = {}
    parts = text.decode("utf-8", "replace").split(",")
    for part in parts:
        m = DIMENSION.fullmatch(part)
        if not m or m[1] in found or int(m[2]) >= int(m[3]):
            return None
        found[m[1]] = int(m[2]), int(m[3])
    return found if len(parts) <= 8 else None


def seats(run):
    """{rank: its place}, where each rank of the run says one of its own in one mesh of all ranks.

    Else {}. Of several meshes that with most dimensions is meant.
    """
    steps = [run.steps(name) for name in run.traces()]
    world = max((s.info.world for s in steps), default=1)
    last = max((attempt_of(s) for s in steps), default=0)
    said = defaultdict(list)
    for s in steps:
        places = [_place(value) for name, value in s.trace.notes if name == b"mesh"]
        if None in places:
            return {}
        most = max(map(len, places), default=0)
        if attempt_of(s) == last:
            said[s.info.rank] += [p for p in places if len(p) == most]
    found = {}
    for rank, places in said.items():
        if places and any(p != places[0] for p in places):
            return {}
        if places:
            found[rank] = places[0]
    shapes = {frozenset((k, n) for k, (_, n) in p.items()) for p in found.values()}
    if set(found) != set(range(world)) or len(shapes) != 1:
        return {}
    alone = {frozenset(p.items()) for p in found.values()}
    whole = math.prod(n for _, n in next(iter(shapes)))
    return found if len(alone) == world == whole else {}


def moved_ranks(a, b):
    """{rank of b: the rank of a that has its place}; {} where they are compared by number."""
    mine, theirs = seats(a), seats(b)
    by_place = {frozenset(p.items()): rank for rank, p in mine.items()}
    found = {rank: by_place.get(frozenset(p.items())) for rank, p in theirs.items()}
    if len(mine) != len(found) or None in found.values():
        return {}
    return found


class ByRole:
    """The steps of a process, with ranks in names as the first run numbers them."""

    def __init__(self, steps, moved):
        self.__dict__.update(steps.__dict__)
        self.original, self.moved, self._names = steps, moved, {}
        groups = defaultdict(set)
        for name, value in steps.trace.notes:
            if name == b"group" and b" " in value:
                group, ranks = value.split(b" ", 1)
                groups[group.decode("utf-8", "replace")].add(ranks)
        self.groups = {g: ranks.pop() for g, ranks in groups.items() if len(ranks) == 1}
        self.rows = defaultdict(list)
        for step, rows in steps.rows.items():
            self.rows[step] = [r._replace(key=self._key(r.key)) for r in rows]

    @property
    def faults(self):
        return self.original.faults

    def _rank(self, n):
        return self.moved.get(int(n), int(n))

    def _key(self, key):
        if key[0] != COLLECTIVE:
            return key
        if key not in self._names:
            name = PEER.sub(lambda m: m[1] + "%d" % self._rank(m[2]), key[2], count=1)
            scope = key[3]
            if scope in self.groups:
                ranks = sorted(self._rank(n) for n in self.groups[scope].split(b","))
                scope = "ranks " + ",".join(map(str, ranks))
            self._names[key] = key[:2] + (name, scope) + key[4:]
        return self._names[key]

    def at(self, step, seq):
        return self.original.at(step, seq)

    def complete(self, step):
        return self.original.complete(step)
