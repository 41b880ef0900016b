# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds what a verdict says of NCCL's choices against the recordings.

Written from docs/internals/nccl.md: the traces below nccl/ of a run folder.
"""

import os

from ._notes import form
from ._recorded import NotHere, Refuted, need
from ._roles import moved_ranks
from .trace import PHASES, Trace, TraceError

COLLECTIVE = PHASES.index("collective")


class Choices:
    """Beside the notes of _notes.Notes."""

    def chosen(self, k, moved):
        """({stream: [(step, sequence, count, datatype, choice)]}, how many calls were lost)"""
        run, streams, lost, twice = self.run_named(k), {}, 0, set()
        folder = os.path.join(run.folder, "nccl")
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if not name.endswith(".twt"):
                continue
            try:
                t = Trace.open(run.path("nccl/" + name))
            except (TraceError, OSError) as e:
                raise NotHere("%s of run %s cannot be read: %s" % (name, k, e))
            noted = dict(t.notes).get(b"nccl.lost", b"0")
            lost += t.info.dropped + t.info.lost + int(noted)
            own = {}
            for r in sorted(t.records(), key=lambda r: r.seq):
                s, y = t.series[r.series], t.layouts[r.layout]
                if s.phase != COLLECTIVE or len(y.shape) != 1:
                    continue
                scope, function, datatype, choice = map(t.string, (s.scope, s.name, s.site, s.op))
                rank = moved.get(t.info.rank, t.info.rank)
                stream = rank, t.info.role, scope, function
                call = r.digest[1], r.digest[0], y.shape[0], datatype, choice
                own.setdefault(stream, []).append(call)
            twice |= set(own) & set(streams)
            streams.update(own)
        return {s: calls for s, calls in streams.items() if s not in twice}, lost

    def choices_of(self, j, k):
        """(pairs of calls that are the same but for the choice, by stream) of two runs."""
        x, lost = self.chosen(j, {})
        y, lost_too = self.chosen(k, moved_ranks(self.run_named(j), self.run_named(k)))
        need(not lost and not lost_too, "calls were lost: which ones is not known")
        pairs = {}
        for stream in set(x) & set(y):
            pairs[stream] = []
            for a, b in zip(x[stream], y[stream]):
                if a[:4] != b[:4]:
                    break
                pairs[stream].append((a, b))
        return pairs

    @form(
        r"NCCL ran (\S+) (\d+) of (communicator .+) \(step (\d+) of rank (-?\d+), ([\d,]+) (\S+)\) by "
        r"(algorithm [^;]*) in run (\d+) and by (algorithm [^;]*) in run (\d+); it chose otherwise for "
        r"([\d,]+) of the ([\d,]+) collectives that were compared(.*)"
    )
    def chose_otherwise(
        self, function, sequence, scope, step, rank, count, datatype, one, j, other, k, n, m, more
    ):
        pairs = self.choices_of(j, k)
        if "not looked at" in more:
            raise NotHere("not all calls were looked at")
        differing = [(s, a, b) for s, p in pairs.items() for a, b in p if a[4] != b[4]]
        need(len(differing) == int(n.replace(",", "")), "%d calls differ", len(differing))
        compared = sum(map(len, pairs.values()))
        need(compared == int(m.replace(",", "")), "%d calls can be compared", compared)
        named = (int(step), int(sequence), int(count.replace(",", "")), datatype)
        for s, a, b in differing:
            if (s[0], s[2], s[3]) == (int(rank), scope, function) and a == (*named, one):
                need(b == (*named, other), "run %s chose %s", k, b[4])
                first = min(a[0] for _, a, _ in differing)
                need(first == int(step), "the first one is of step %d", first)
                return
        raise Refuted("no such call was made, or it was the same")

    @form(
        r"NCCL chose the same algorithms, protocols and channels in run (\d+) and run (\d+) for the "
        r"([\d,]+) collectives that were compared(.*)"
    )
    def chose_the_same(self, j, k, m, more):
        pairs = self.choices_of(j, k)
        if "not looked at" in more:
            raise NotHere("not all calls were looked at")
        need(all(a[4] == b[4] for p in pairs.values() for a, b in p), "it chose otherwise")
        compared = sum(map(len, pairs.values()))
        need(compared == int(m.replace(",", "")), "%d calls can be compared", compared)

    @form(r"what NCCL chose was not compared: it was recorded in run (\d+) alone")
    def chosen_in_one(self, k):
        has = [bool(self.has_choices(r)) for r in self.runs[:2]]
        need(sorted(has) == [False, True], "%s", "both have it" if all(has) else "none has it")
        need(has.index(True) + 1 == int(k), "it was in the other one")

    @staticmethod
    def has_choices(run):
        folder = os.path.join(run.folder, "nccl")
        return os.path.isdir(folder) and any(n.endswith(".twt") for n in os.listdir(folder))
