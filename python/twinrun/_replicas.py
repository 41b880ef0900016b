# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds notes of ranks that should hold equal weights against the recordings.

Written from docs/internals/replicas.md: it shares no code with the comparison.
"""

import re
from collections import Counter, defaultdict, namedtuple

from ._notes import form
from ._recorded import INIT, OPTIMIZER, WEIGHT, Refuted, need, printable
from ._shown import attempt_of

LISTED = 16  # ranks that a sentence names
NAME_BYTES = 200
PART = re.compile(r"\[[0-9]+:[0-9]+\]\Z")
HEAD = re.compile(
    rb"(?P<keeper>[^ \n]+) (?P<ranks>[0-9]+(?:,[0-9]+)+) (?P<step>[0-9]{1,10}) (?P<start>[01])"
    rb" (?P<count>[1-9][0-9]*) (?P<scope>[^\n]+)(?:\n|\Z)"
)
LIMIT = re.compile(rb"([0-9]{1,10}) ([0-9,]+) ([^\n]+)")

Noted = namedtuple("Noted", "step start count names")
Found = namedtuple(
    "Found", "drift unknown"
)  # of a group: text behind its ranks, or None; (step, whys)


def _text(data):
    return data.decode("utf-8", "surrogateescape")


def _listed(ranks):
    return ", ".join([str(r) for r in ranks[:LISTED]] + ["..."] * (len(ranks) > LISTED))


def _keeper(word):
    """Who says that the ranks should agree, in the words of a sentence."""
    name, slash, over = printable(_text(word)).partition("/")
    if name != "DTensor" or not slash:
        return printable(_text(word))
    return "DTensor, replicated over mesh dimension%s %s" % ("s" if "+" in over else "", over)


def _shown(name):
    cut = name.encode("utf-8", "surrogateescape")[:NAME_BYTES]
    return printable(_text(cut))


class _Member:
    """A rank of a group: the processes that say so, and what each of them noted."""

    def __init__(self):
        self.says, self.local, self.end = [], None, None


def _noted(steps):
    """{(keeper, ranks, scope): Noted} of one process; of several about one group the first counts."""
    heads, found = {}, {}
    for key, value in steps.trace.notes:
        m = HEAD.match(value) if key == b"replica" else None
        if not m:
            continue
        names = [n for n in value[m.end() :].split(b"\n") if n]
        group = m["keeper"], m["ranks"], m["scope"]
        if group not in found:
            heads[group] = m.group().rstrip(b"\n")
            found[group] = Noted(int(m["step"]), m["start"] == b"1", int(m["count"]), [])
        if heads[group] == m.group().rstrip(b"\n"):
            found[group].names.extend(names)
    return found


def _groups(run):
    """{(attempt, keeper, ranks, scope): {rank: _Member}} that the processes of a run note."""
    groups = {}
    every = [s for s in map(run.readable, run.traces()) if s is not None]
    for s in every:
        for group, noted in _noted(s).items():
            ranks = [int(r) for r in group[1].split(b",")]
            if ranks != sorted(set(ranks)):
                continue
            members = groups.setdefault((attempt_of(s), *group), {r: _Member() for r in ranks})
            if s.info.rank in members:
                members[s.info.rank].says.append((s, noted))
    for s in every:
        for key, value in s.trace.notes:
            m = LIMIT.match(value) if key in (b"replica.local", b"replica.end") else None
            for (attempt, _keeper, ranks, scope), members in groups.items() if m else ():
                if (attempt, ranks, scope) != (attempt_of(s), m[2], m[3]):
                    continue
                member = members.get(s.info.rank)
                if member:
                    which = key[len(b"replica.") :].decode()
                    before = getattr(member, which)
                    step = int(m[1])
                    setattr(member, which, step if before is None else min(before, step))
    return groups


class _Group:
    """What the traces show of one group."""

    def __init__(self, members, scope, damage_from):
        self.members, self.scope = members, _text(scope)
        self.ranks = sorted(members)
        self.whys = defaultdict(set)  # step -> why nothing is known from there on
        self.ends = []  # steps from which on nothing is known, by right
        present = [m.says[0] for m in members.values() if m.says]
        self.first = present[0][1] if present else Noted(0, False, 0, [])
        for rank, m in members.items():
            self.look_at(rank, m)
        lengths = {r: m.says[0][0].info.steps for r, m in members.items() if m.says} or {-1: 0}
        least, most = min(lengths.values()), max(lengths.values())
        self.steps = least
        self.ends.append(least + (least == most and all(s.info.closed for s, _ in present)))
        if least != most:
            for rank, n in lengths.items():
                if n == least:
                    why = "rank %d made %d steps, and another one %d" % (rank, least, most)
                    self.whys[self.ends[0]].add(why)
        if damage_from is not None:
            self.ends.append(damage_from)
        self.limit = min(self.ends + list(self.whys))
        self.rows = {}
        if self.limit > self.first.step:
            self.rows = {r: self.records(m.says[0][0]) for r, m in members.items()}
            for rank in self.ranks[1:]:
                self.hold_against(rank)

    def look_at(self, rank, m):
        if not m.says:
            self.whys[0].add("rank %d left no trace that says so" % rank)
            return
        s, noted = m.says[0]
        first = self.first
        if len(m.says) > 1:
            self.whys[0].add("several processes of rank %d say so" % rank)
        if len(noted.names) != noted.count or (
            noted.step,
            noted.start,
            sorted(noted.names),
        ) != (first.step, first.start, sorted(first.names)):
            self.whys[0].add("rank %d says it of other weights" % rank)
        if s.info.lost:
            self.whys[0].add("rank %d could not record everything" % rank)
        if m.local is not None:
            why = "rank %d stepped on gradients that were not averaged (no_sync)" % rank
            self.whys[m.local].add(why)
        if m.end is not None:
            self.ends.append(m.end)
        for step in dict(s.trace.gaps):
            if step >= first.step:
                self.whys[step].add("rank %d lost records of that step" % rank)

    def records(self, s):
        """{step: [row]} of the group's weights, in their order."""
        names, out = {_text(n) for n in self.first.names}, {}
        for step, rows in s.rows.items():
            for r in rows:
                phase, kind, name, scope = r.key[:4]
                begins = phase == INIT and self.first.start and step == self.first.step
                if (
                    kind == WEIGHT
                    and (phase == OPTIMIZER or begins)
                    and scope == self.scope
                    and PART.sub("", name) in names
                    and step >= self.first.step
                ):
                    out.setdefault(step, []).append(r)
        return out

    def hold_against(self, rank):
        """Until when did a rank record the same weights as the first one, and read them?"""
        own, other = self.rows[self.ranks[0]], self.rows[rank]
        for step in sorted(set(own) | set(other)):
            if step >= self.limit:
                return
            x, y = (sorted(r.get(step, ()), key=lambda r: r.key) for r in (own, other))
            whys = set()
            if Counter(r.key for r in x) != Counter(r.key for r in y):
                at = rank, self.ranks[0]
                whys.add("rank %d recorded other weights in that step than rank %d" % at)
            for who, rows in ((self.ranks[0], x), (rank, y)):
                for r in rows:
                    if r.unread:
                        name = PART.sub("", r.key[2])
                        whys.add("rank %d could not read %s" % (who, _shown(name)))
            if whys:
                self.limit = step
                if step < self.steps:
                    self.whys[step] |= whys
                return

    # ---- what may be said of it

    def contents(self):
        """[(row of the first rank, {rank: content})] below the limit, in the order of execution."""
        out = []
        for step in sorted(self.rows.get(self.ranks[0], ())):
            if step >= self.limit:
                break
            by_rank = {}
            for rank in self.ranks:
                places = defaultdict(list)
                for r in self.rows[rank].get(step, ()):
                    places[r.key].append(r)
                by_rank[rank] = places
            nth = Counter()
            for r in self.rows[self.ranks[0]][step]:
                at = nth[r.key]
                nth[r.key] += 1
                same = {k: by_rank[k][r.key][at].content for k in self.ranks}
                out.append((r, same))
        return sorted(out, key=lambda x: (x[0].step, x[0].key[0] != INIT, x[0].seq))

    def drift(self):
        """The sentence behind "and do not: "; None where nothing differs."""
        rows = self.contents()
        differ = [x for x in rows if len(set(x[1].values())) > 1]
        if not differ:
            return None
        row, same = differ[0]
        if row.key[0] == INIT:
            when = "at the start"
        elif row.step >= self.steps:
            when = "at the end"
        else:
            when = "after step %d" % row.step
        content, most = Counter(same.values()).most_common(1)[0]
        odd = ""
        if len(self.ranks) > 2 and 2 * most > len(self.ranks):
            others = [r for r in self.ranks if same[r] != content]
            one = len(others) == 1
            odd = ", where rank%s %s differ%s from the other %d, which agree" % (
                "" if one else "s",
                _listed(others),
                "s" if one else "",
                most,
            )
        after = [
            {x[0].step for x in some if x[0].key[0] == OPTIMIZER and x[0].step < self.steps}
            for some in (differ, rows)
        ]
        return "%s is first seen to differ %s%s; %d of %d weights differ, in %d of %d steps" % (
            _shown(PART.sub("", row.key[2])),
            when,
            odd,
            len({PART.sub("", x[0].key[2]) for x in differ}),
            len(self.first.names),
            len(after[0]),
            len(after[1]),
        )


class Replicas:
    """Notes of ranks that should hold equal weights."""

    def replicas(self, k, ranks, keeper):
        """[_Group] of a run on these ranks."""
        run = self.run_named(k)
        found = [
            (members, key)
            for key, members in _groups(run).items()
            if _listed(sorted(members)) == ranks and _keeper(key[1]) == keeper
        ]
        need(found, "no rank of run %s noted that", k)
        out = []
        for members, key in found:
            damaged = any(s.faults for m in members.values() for s, _ in m.says)
            at = self.damage_from(k, ranks, keeper) if damaged else None
            out.append(_Group(members, key[3], at))
        return out

    def damage_from(self, k, ranks, keeper):
        """From which step on the verdict says that nothing is known: what a reader can still make of
        damaged bytes is its own affair.
        """
        head = "run %s: whether ranks %s hold equal weights (%s) is not known" % (k, ranks, keeper)
        for text in self.verdict.get("notes", ()):
            if text.startswith(head):
                m = re.match(r" from step (\d+) on: ", text[len(head) :])
                return int(m[1]) if m else 0
        raise Refuted("a trace is damaged, and the verdict does not say so")

    @form(
        r"run (\d+): ranks ([\d, .]+) should hold equal weights \(([^()]+)\) and do not: (.* is first seen to differ .*)"
    )
    def ranks_drifted(self, k, ranks, keeper, text):
        found = [g.drift() for g in self.replicas(k, ranks, keeper)]
        need(text in found, "of these ranks: %s", found)

    @form(
        r"run (\d+): whether ranks ([\d, .]+) hold equal weights \(([^()]+)\) is not known(?: from step (\d+) on)?: (.*)"
    )
    def ranks_unknown(self, k, ranks, keeper, step, why):
        groups = self.replicas(k, ranks, keeper)
        m = re.fullmatch(r"a part of rank (\d+)'s trace is damaged", why)
        if m:
            need(any(_damaged(g, int(m[1])) for g in groups), "its trace is intact")
            return
        for g in groups:
            at = g.limit if g.limit > g.first.step else None
            if why in g.whys.get(g.limit, ()) and at == (None if step is None else int(step)):
                return
        raise Refuted("of these ranks: %s" % [(g.limit, sorted(g.whys[g.limit])) for g in groups])


def _damaged(group, rank):
    member = group.members.get(rank)
    return member is not None and any(s.faults for s, _ in member.says)
