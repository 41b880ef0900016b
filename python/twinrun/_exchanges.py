# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds what a verdict says of the order of ranks against the recordings.

Records of messages and collectives are counted anew: the k-th message from one rank to another with
one tag on one communicator is the k-th that the other one receives, and the k-th call of a
collective on a communicator is the same call on all ranks (docs/format/verdict.md).
"""

import math
import re
from collections import namedtuple

from ._notes import form
from ._recorded import need, number, printable, word
from .trace import KINDS, PHASES

COLLECTIVE = PHASES.index("collective")
IN, OUT = KINDS.index("in"), KINDS.index("out")
MESSAGE = re.compile(r".* (to|from) rank (\d+), (tag .*)", re.S)
# every rank gives and gets; every rank gives; each record is a call; the root gives, all get
EVERY = {
    "MPI_Allreduce", "MPI_Iallreduce", "MPI_Allgather", "MPI_Iallgather", "MPI_Allgatherv",
    "MPI_Iallgatherv", "MPI_Alltoall", "MPI_Ialltoall", "MPI_Reduce_scatter",
    "MPI_Ireduce_scatter", "MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block", "all_reduce",
    "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
    "all_gather_object",
}  # fmt: skip
TO_ROOT = {"MPI_Reduce", "MPI_Gather", "MPI_Gatherv", "reduce", "gather", "gather_object"}
ONE_RECORD = {"MPI_Bcast", "broadcast", "broadcast_object_list"}
FROM_ROOT = {"MPI_Scatter", "MPI_Scatterv", "scatter", "scatter_object_list"}

# match: what is equal for who gives and who takes; sure: it is this call, and no other under way
Exchange = namedtuple("Exchange", "row match sure")


def members(steps, scope):
    """The ranks of a group of torch.distributed, as this process noted them; None: it had several
    groups of that name.
    """
    notes = {v for k, v in steps.trace.notes if k == b"group"}
    said = {v.split(b" ", 1)[1] for v in notes if v.startswith(scope.encode() + b" ")}
    return None if len(said) > 1 else b"".join(said).decode("ascii", "replace")


def exchanges(steps):
    """{(step, seq): Exchange} of one trace, as far as they are followed."""
    rank, counts, calls, opened, found, threads = steps.info.rank, {}, {}, {}, {}, set()
    beside = any(k == b"exchange.unseen" for k, _ in steps.trace.notes)
    for step in sorted(steps.rows):
        for r in steps.rows[step]:
            phase, kind, name, scope = r.key[:4]
            if phase != COLLECTIVE or KINDS[kind] == "order":
                continue
            threads.add(r.thread)
            group, with_root = "", r.op.startswith("root ")
            if not name.startswith("MPI_"):
                scope = scope or "0"
                group = "" if scope == "0" else members(steps, scope)
                if group is None:
                    continue
            else:
                with_root = True
            shared = scope.startswith("MPI_COMM_WORLD") or not name.startswith("MPI_")
            if not shared or "/group " in scope or "/bridge " in scope or kind not in (IN, OUT):
                continue
            message, sure = MESSAGE.fullmatch(name), True
            base, _, part = re.split(": ?/", name)[0].partition("[")  # without a path behind it
            if base.startswith("MPI_") and base.endswith("_c"):
                base = base[:-2]  # large counts: the same collective
            new = part in ("", "0]")
            if message:
                way, other, tag = message.group(1), int(message.group(2)), message.group(3)
                if (way == "to") != (kind == IN):
                    continue
                channel = (
                    "message",
                    *((rank, other) if way == "to" else (other, rank)),
                    tag,
                    group,
                    scope,
                )
                n = counts[channel, kind] = counts.get((channel, kind), 0) + 1
            else:
                channel = ("call", base, group, scope)
                if base not in EVERY and not with_root:
                    continue
                beside |= base not in EVERY and r.op.endswith(", beside others")
                if base in EVERY:
                    n = counts[channel, kind] = counts.get((channel, kind), 0) + new
                    sure = kind == IN or n == counts.get((channel, IN), 0)
                elif base in TO_ROOT:
                    n = counts[channel, IN] = counts.get((channel, IN), 0) + (kind == IN and new)
                elif base in ONE_RECORD | FROM_ROOT:
                    goes_on = base in FROM_ROOT and (
                        opened.get(channel) if kind == OUT else not new
                    )
                    n = calls[channel] = calls.get(channel, 0) + (not goes_on)
                    opened[channel] = kind == IN
                else:
                    continue
            found[step, r.seq] = Exchange(r, (channel, n), sure)
    whole = not steps.info.dropped and not steps.info.lost and not steps.faults
    need(whole, "records of %s are missing: they cannot be counted", steps.trace.name)
    need(len(threads) <= 1, "several threads of %s exchange messages", steps.trace.name)
    need(not beside, "calls of %s were not seen, or ran beside each other", steps.trace.name)
    return found


def elements(row):
    return math.prod(row.content[0][1:]) if row.content[0] else 0


class Exchanges:
    """The claim "carried", and the notes that rest on it."""

    def trace_of_rank(self, claim, rank):
        """The traces of a rank's trainer in both runs of a claim."""
        found = [
            c
            for c in self.ranges({"runs": claim["runs"]})
            if c["rank"] == rank and not c.get("auxiliary")
        ]
        need(len(found) == 1, "rank %d has %d traces", rank, len(found))
        return found[0], self.pair(found[0])

    def numbered(self, steps):
        cache = self.__dict__.setdefault("_numbered", {})
        if id(steps) not in cache:
            cache[id(steps)] = exchanges(steps)
        return cache[id(steps)]

    def given(self, steps, match):
        rows = [
            e.row
            for e in self.numbered(steps).values()
            if e.match == match and e.row.key[1] == IN and not e.row.unread
        ]
        need(rows, "rank %d gave nothing for that", steps.info.rank)
        return rows

    def carried(self, claim):
        """What the rank took first that differs was given so by another rank, in both runs."""
        x, y = self.pair(claim)
        rank, source = claim["rank"], number(claim, "from")
        range_, _ = self.trace_of_rank(claim, rank)
        need(range_["traces"] == claim["traces"], "those are not the traces of rank %d", rank)
        need(
            self.end_of(range_) == number(claim, "step", 0),
            "rank %d differs in step %d first",
            rank,
            self.end_of(range_),
        )
        of_source, sides = self.trace_of_rank(claim, source)
        need(source != rank, "a rank takes nothing of itself")
        rows, gave = [], []
        for side, (steps, giver) in enumerate(zip((x, y), sides)):
            at = claim["at"][side]
            step, seq = number(at, "step"), number(at, "record")
            need(at["file"] == claim["traces"][side], "it lies in another trace")
            need(step == number(claim, "step", side), "it is in another step")
            found = self.numbered(steps).get((step, seq))
            need(found and found.row.key[1] == OUT, "that is not taken from anybody")
            channel, n = found.match
            need(n == number(claim, "number", side), "it is number %d", n)
            need(found.sure, "several such calls were under way")
            need((channel[0] == "message") is claim.get("message"), "it is no such exchange")
            by = channel[3] if channel[0] == "message" else channel[1]
            need(printable(by) == word(claim, "by"), "it was %s", by)
            need(printable(channel[-1]) == word(claim, "scope"), "it was on %s", channel[-1])
            rows.append(found.row)
            gave.append(self.given(giver, found.match))
            if channel[0] == "message":
                sent = gave[side][0]
                same = sent.digest == found.row.digest and elements(sent) == elements(found.row)
                need(same and channel[1] == source, "what was sent is not what arrived")
        need(rows[0].content != rows[1].content, "rank %d took the same", rank)
        mine, theirs = ([r.content for r in g] for g in gave)
        need(mine != theirs, "rank %d gave the same", source)
        need(gave[0][0].step == number(claim, "from_step"), "it was given in another step")
        need(self.end_of(of_source) <= gave[0][0].step, "rank %d differs later", source)
        return "rank %d from rank %d by %s" % (rank, source, word(claim, "by"))

    def carriers(self):
        """{rank: its claim} of all that only took what differs."""
        return {c.get("rank"): c for c in self.claims if c.get("claim") == "carried"}

    def order_of_ranks(self):
        """The verdict's `order` lists what its claims say."""
        order = self.verdict.get("order")
        said = [r for r in (order or {}).get("differing", []) if r.get("place") == "carried"]
        claims = self.carriers()
        need(len(claims) == min(len(said), 256), "not each rank that took it has a claim")
        for r in said[:256]:
            c = claims.get(r.get("rank"))
            need(
                c is not None
                and [c[k] for k in ("from", "from_step", "by", "scope", "message", "number")]
                == [r.get(k) for k in ("from", "from_step", "by", "scope", "message", "number")]
                and c["step"] == [r.get("step"), r.get("step_b")],
                "no claim says what rank %s took",
                r.get("rank"),
            )

    def taken_alike(self, source, n, by, scope, ranks, more, message):
        found = {
            rank
            for rank, c in self.carriers().items()
            if (c["from"], c["number"][0], c["by"], c["scope"], c["message"])
            == (int(source), int(n), by, scope, message)
        }
        said = {int(r) for r in ranks.split(",")}
        need(said <= found and (more or said == found), "ranks %s took it there", sorted(found))

    NUMBER = r"(\d+)(?: in run \d+, \d+ in run \d+)?"

    @form(
        r"carried to ranks? ([0-9, ]+)(, \.\.\.)? from rank (\d+) by call "
        + NUMBER
        + r" of ([A-Za-z_]+)(?: on |, group )(.*)"
    )
    def carried_by_call(self, ranks, more, source, n, by, scope):
        self.taken_alike(source, n, by, scope, ranks, more, False)

    @form(
        r"carried to rank (\d+) by message "
        + NUMBER
        + r" from rank (\d+), (tag .*), on (?:group )?(.*)"
    )
    def carried_by_message(self, rank, n, source, by, scope):
        c = self.carriers().get(int(rank))
        need(c is not None and c["message"], "no message is known to have brought it")
        said = int(source), int(n), by, scope
        is_ = c["from"], c["number"][0], c["by"][:40], c["scope"][:120]
        need(said == is_, "it was message %d from rank %d", c["number"][0], c["from"])

    @form(
        r"rank (\d+) diverged in its step (\d+) before rank (\d+) did in its step (\d+), as "
        r"messages and collectives order them"
    )
    def against_steps(self, first, step, rank, later):
        claims, at = self.carriers(), int(rank)
        need(at in claims and claims[at]["step"][0] == int(later), "rank %d took nothing", at)
        for _ in range(len(claims) + 1):
            if at not in claims:
                break
            at = claims[at]["from"]
        need(at == int(first), "it leads to rank %d", at)
        named = self.first_claim()
        said = [int(first), int(step)]
        is_ = named and ("zoom" in named or [named["rank"], named["step"][0]] == said)
        need(is_, "another rank is named first")

    @form(r"no message or collective brought what differs to any of these ranks: (.*?)(, \.\.\.)?")
    def by_themselves(self, listed, more):
        ranks = [tuple(map(int, m)) for m in re.findall(r"(\d+) \(step (\d+)\)", listed)]
        runs = self.first_claim()["runs"]
        need(len(ranks) > 1, "that is one rank")
        for rank, step in ranks:
            c, (x, y) = self.trace_of_rank({"runs": runs}, rank)
            need(rank not in self.carriers(), "rank %d took it", rank)
            need(self.end_of(c) == step, "rank %d differs in step %d first", rank, self.end_of(c))
            for own, other in ((x, y), (y, x)):
                at = step if own is x else step + c["shift"]
                there = step + c["shift"] if own is x else step
                mine, theirs = own.rows.get(at, ()), other.rows.get(there, ())
                for a, b in zip(mine, theirs):
                    if a.key != b.key or a.content != b.content:
                        break
                else:
                    continue
                need(
                    a.key[0] != COLLECTIVE or a.key[1] == IN or self.all_gave_the_same(a, own, c),
                    "rank %d took it",
                    rank,
                )

    def all_gave_the_same(self, row, steps, claim):
        """Nothing that any rank gave for what was taken differs between the runs."""
        found = self.numbered(steps).get((row.step, row.seq))
        need(found and found.sure, "what it took is not known")
        for c in self.ranges({"runs": claim["runs"]}):
            if c.get("auxiliary"):
                continue
            sides = self.pair(c)
            gave = [
                [
                    e.row.content
                    for e in self.numbered(s).values()
                    if e.match == found.match and e.row.key[1] == IN
                ]
                for s in sides
            ]
            if gave[0] != gave[1]:
                return False
        return True
