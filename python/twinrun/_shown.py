# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds claims against what runs printed and wrote, and how they ended.

docs/format/verdict.md lists the kinds of claims and their fields.
"""

import json
import re
from collections import Counter

from . import _lines
from ._recorded import (
    Refuted,
    Rules,
    equal_step,
    items,
    need,
    number,
    printable,
    same_beginnings,
    same_streams,
    word,
)

KEPT_MAX = 8 << 20  # bytes of a kept file
QUOTED = 120  # bytes of a line that a sentence quotes
PAIR = re.compile(
    r"([0-9]+) (?:printed )?lines? differs? in .+, first line ([0-9]+) of [^:]+: "
    r'"(.*)" and "(.*)"$',
    re.S,
)


NOISE = re.compile(
    r"([0-9]+) lines? of (.+) "
    r"(?:differs? only in times, pids, speeds or addresses"
    r"|ran together with others that were printed at the same time)"
)
OBJECTS = "equal objects, their keys in another order or on other lines"
INSERTED = (
    re.compile(
        r"from step [0-9]+ on one arm did more in between \(.* and [0-9]+ more\): "
        r"nothing that both did differs"
    ),
    re.compile(
        r"run [0-9]+ read [0-9]+ batch(?:es)? and dropped (?:it|them) before step [0-9]+ \(its 0\)"
    ),
)


class Shown:
    """Claims about lines, files, ends and classes, beside those of _claims.Claims."""

    # ---- lines and files

    def noise(self, claim):
        """Lines that say the same in both runs once facts, times and speeds are masked."""
        runs = items(claim, "runs")
        need(len(runs) == 2 and runs[0] != runs[1], "two runs are wanted")
        a, b = self.run(claim, 0), self.run(claim, 1)
        if "lines" not in claim:
            return self.benign(claim, a, b)
        stream, total = word(claim, "stream"), 0
        mine, theirs = a.stream(stream), b.stream(stream)
        own_a, own_b = _lines.facts(a.json, a.folder), _lines.facts(b.json, b.folder)
        for i in range(len(items(claim, "lines"))):
            x, y, n = (number(claim, "lines", i, k, least=1) for k in range(3))
            need(x + n - 1 <= len(mine) and y + n - 1 <= len(theirs), "%s has no such line", stream)
            for k in range(n):
                p, q = mine[x + k - 1], theirs[y + k - 1]
                alike = _lines.masked(p, own_a) == _lines.masked(q, own_b)
                need(
                    alike,
                    "line %d of %s is %r in one run and %r in the other",
                    x + k,
                    stream,
                    p[:80],
                    q[:80],
                )
            total += n
        return "%d lines of %s" % (total, stream)

    def benign(self, claim, a, b):
        """A sentence about noise: the lines, or the file's tensors, are claims of their own."""
        name = claim.get("name")
        need(claim.get("first") is False, "noise is never what differs first")
        if claim.get("type") == "output":
            x, y = Counter(a.stream(name)), Counter(b.stream(name))
            need(x != y, "%s is the same", name)
            said = NOISE.fullmatch(word(claim, "text"))
            need(said and said.group(2) == name, "it does not say of what")
            most = min(sum((x - y).values()), sum((y - x).values()))
            need(0 < int(said.group(1)) <= most, "only %d lines of %s differ", most, name)
            return claim["text"]
        at = items(claim, "at")
        other = at[1]["file"] if at[1] else name
        x, y = a.files().get(name), b.files().get(other)
        need(
            x and y and x.get("sha256") != y.get("sha256"), "%s is the same file in both runs", name
        )
        lines, said = NOISE.fullmatch(word(claim, "text")), "%s: file bytes differ, " % name
        if lines and lines.group(2) == name:
            return claim["text"]
        text = claim["text"]
        if text == said + OBJECTS:
            need(objects(a, x) == objects(b, y), "%s holds other objects", name)
            return text
        known = (said + "tensors and other values equal", said + "contents equal")
        need(text in known, "%s...", said)
        return text

    def inserted(self, claim):
        """What one arm did in between: what both did is in the equal ranges."""
        text = word(claim, "text")
        need(any(p.fullmatch(text) for p in INSERTED), "nobody knows what that means")
        need(self.arms(), "these runs are no arms")
        return text

    def artifact(self, claim):
        a, b = self.run(claim, 0), self.run(claim, 1)
        name, at = claim.get("name"), items(claim, "at")
        need(claim.get("type") in ("output", "file"), "it is neither printed nor a file")
        if claim["type"] == "output":
            return self.printed_line(claim, name, at, a, b)
        x, y = a.files(), b.files()
        other = at[1]["file"] if at[1] else name
        need(at[0] is None or at[0]["file"] == name, "its evidence is another file")
        need(name in x or other in y, "no run wrote %s", name)
        need(at[1] is None or other in y, "run %s wrote no %s", claim["runs"][1], other)
        x, y = x.get(name, {}), y.get(other, {})
        need(x.get("sha256") != y.get("sha256"), "%s has the same contents in both runs", name)
        text = word(claim, "text")
        need(name in text, "the sentence is of another file")
        sizes = re.search(r"differ \(([0-9]+) and ([0-9]+) bytes\)$", text)
        if sizes and x and y:
            found = [x.get("bytes"), y.get("bytes")]
            need([int(n) for n in sizes.groups()] == found, "they have %s and %s bytes", *found)
        return name

    def printed_line(self, claim, name, at, a, b):
        mine, theirs = a.stream(name), b.stream(name)
        need(Counter(mine) != Counter(theirs), "%s has the same lines in both runs", name)
        said = PAIR.match(word(claim, "text"))
        if not at[0] or not at[1]:
            return name
        need(said, "the sentence quotes no lines")
        need(all(e["file"] == name for e in at), "its evidence is another stream")
        lines = []
        for shown, where, quoted in zip((mine, theirs), at, said.groups()[2:]):
            n = number(where, "line", least=1)
            need(n <= len(shown), "there is no line %d", n)
            line = shown[n - 1]
            cut = printable(line[:QUOTED].decode("utf-8", "surrogateescape"))
            need(cut == quoted, "line %d is %r", n, line[:80])
            lines.append(line)
        need(lines[0] != lines[1], "the two lines are equal")
        place = a.places(name)[at[0]["line"] - 1]  # the sentence counts as an editor does
        need(int(said.group(2)) == place, "it is line %d", place)
        x, y = Counter(mine), Counter(theirs)
        most = min(sum((x - y).values()), sum((y - x).values()))
        need(0 < int(said.group(1)) <= most, "only %d lines differ", most)
        return name

    # ---- how runs ended

    def outcome(self, claim):
        name, text = claim.get("name"), word(claim, "text")
        a, b = self.run(claim, 0), self.run(claim, 1)
        kinds = {
            "how the job ended": ("outcome", self.ended),
            "number of steps": ("outcome", self.steps_made),
            "processes": ("ranks", self.processes),
            "attempts": ("ranks", self.started_again),
        }
        need(name in kinds, "nobody knows what %s is", name)
        need(claim.get("type") == kinds[name][0], "that is of type %s", kinds[name][0])
        kinds[name][1](claim, text, a, b)
        return text

    def ended(self, claim, text, a, b):
        ends = [how_it_ended(r) for r in (a, b)]
        need(ends[0] != ends[1] and (a.failed() or b.failed()), "both runs ended alike")
        said = "run %d: %s, run %d: %s" % (claim["runs"][0], ends[0], claim["runs"][1], ends[1])
        text = re.sub(r"((?:signal -?[0-9]+|not started)) \([^)]*\)", r"\1", text)  # its name
        need(text.startswith(said), "%s", said)
        rest = text[len(said) :]
        which = re.match(r"; (?:the records of )?run ([0-9]+) ", rest)
        need(not rest or which, "nobody knows what %r means", rest)
        if not rest:
            return
        need(int(which.group(1)) in claim["runs"], "that is another run")
        failed = self.runs[int(which.group(1)) - 1]
        stop = re.fullmatch(r"; the records of run [0-9]+ stop in step ([0-9]+)", rest)
        mains = [s for s in map(failed.steps, failed.traces()) if is_main(s)]
        most = max((s.info.steps for s in mains), default=0)
        none = not any(s.info.records or s.info.steps for s in map(failed.steps, failed.traces()))
        if stop:
            need(int(stop.group(1)) == most, "they stop in step %d", most)
        else:
            need(rest.endswith(" left no records") and none, "it left records")

    def steps_made(self, claim, text, a, b):
        said = re.fullmatch(r"run ([0-9]+) has ([0-9]+) steps, run ([0-9]+) (-?[0-9]+)", text)
        need(said, "it does not say how many")
        x, n, y, m = map(int, said.groups())
        need([x, y] == claim["runs"] and n != m, "that is of other runs")
        made = [c.get("of") for c in self.ranges(claim)]
        need([n, m] in made, "no process made %d and %d steps", n, m)

    def processes(self, claim, text, a, b):
        said = re.fullmatch(
            r"rank (-?[0-9]+) \((.*), number ([0-9]+)\) recorded only in run ([0-9]+)", text
        )
        need(said, "it does not say which")
        rank, role, _, run = said.groups()
        alone = [
            c
            for c in self.claims
            if c.get("claim") == "only-in" and "trace" in c and c.get("runs") == claim["runs"]
        ]
        need(
            any(
                [c.get("rank"), c.get("process"), c.get("run")] == [int(rank), role, int(run)]
                for c in alone
            ),
            "no claim says that this process is in one run alone",
        )

    def started_again(self, claim, text, a, b):
        said = re.fullmatch(
            r"torchrun started the ranks of run ([0-9]+) again ([0-9]+) times?, those of run "
            r"([0-9]+) ([0-9]+) times?: attempt was compared with attempt",
            text,
        )
        need(said, "it does not say how often")
        x, n, y, m = map(int, said.groups())
        need([x, y] == claim["runs"] and n != m, "that is of other runs")
        found = [attempts_of(a), attempts_of(b)]
        need(found == [n, m], "they were started again %d and %d times", *found)

    def without_counterpart(self, claim):
        k = number(claim, "run", least=1, most=len(self.runs))
        runs = items(claim, "runs")
        need(len(runs) == 2 and k in runs and runs[0] != runs[1], "run %d is none of the two", k)
        for i in (0, 1):
            number(claim, "runs", i, least=1, most=len(self.runs))
        steps = self.runs[k - 1].steps(word(claim, "trace"))
        role = printable(steps.info.role.decode("utf-8", "replace") or "main")
        need(
            steps.info.rank == claim.get("rank")
            and role == claim.get("process")
            and steps.info.steps == claim.get("steps")
            and steps.info.records == claim.get("records"),
            "%s is another process",
            claim["trace"],
        )
        side = runs.index(k)
        paired = [c for c in self.ranges(claim) if c["traces"][side] == claim["trace"]]
        need(not paired, "%s was compared", claim["trace"])
        return claim["trace"]

    def lost(self, claim):
        first, last = number(claim, "first"), number(claim, "last")
        for run in self.runs:
            for name in run.traces():
                s = run.steps(name)
                n = sum(n for step, n in s.trace.gaps if first <= step <= last)
                ends = {step for step, _ in s.trace.gaps}
                if s.info.rank == claim.get("rank") and n == claim.get("records"):
                    need(
                        first in ends and last in ends,
                        "nothing was lost in steps %d, %d",
                        first,
                        last,
                    )
                    return "steps %d to %d: %d records" % (first, last, n)
        raise Refuted("no trace lost these records")

    # ---- which runs agree

    def ranges(self, claim):
        """What was compared between the two runs of a claim."""
        return [
            c
            for c in self.claims
            if c.get("claim") == "same-range" and c.get("runs") == claim["runs"] and "zoom" not in c
        ]

    def classes(self, claim):
        every = [c for c in self.claims if c.get("claim") == "class"]
        members = [n for c in every for n in items(c, "runs")]
        need(
            sorted(members) == list(range(1, len(self.runs) + 1)),
            "each of the %d runs stands in one class",
            len(self.runs),
        )
        mine, usual = items(claim, "runs"), max(every, key=lambda c: len(c["runs"]))
        step = claim.get("parts_at_step")
        need(mine, "a class of no runs")
        if self.arms():  # their steps do not correspond by number
            return "runs %s" % ", ".join(map(str, mine))
        for n in mine[1:]:
            found = self.first_difference(mine[0], n)
            need(found is None, "runs %d and %d differ in step %s", mine[0], n, found)
        if claim is usual:
            need(step is None, "it is the class that the others leave")
        else:
            self.leaves(usual["runs"][0], mine[0], step)
        return "runs %s" % ", ".join(map(str, mine))

    def leaves(self, usual, run, step):
        """A class leaves the usual one where their records differ, else where what they
        show does.
        """
        found = self.first_difference(usual, run)
        if found is not None:
            need(step == found, "it leaves at step %s", found)
            return
        first = self.verdict.get("first") or {}
        if self.verdict.get("outcome") == "error" and not first:
            # no difference of runs that failed is called the first; each is a claim of its own
            first = (self.verdict.get("origins") or [{}])[0]
            need(self.shown_between(usual, run), "nothing that they show differs")
        need(step is None or step == first.get("step"), "their records agree in every step")

    def shown_between(self, n, m):
        """Do two runs differ in how they ended, or in their lines or files? Whether it counts is
        a claim of its own.
        """
        a, b = self.runs[n - 1], self.runs[m - 1]
        sums = [{k: f.get("sha256") for k, f in run.files().items()} for run in (a, b)]
        return (
            how_it_ended(a) != how_it_ended(b)
            or any(Counter(a.stream(s)) != Counter(b.stream(s)) for s in ("stdout", "stderr"))
            or sums[0] != sums[1]
        )

    def arms(self):
        return any("insertions" in Rules(c).words for c in self.claims if isinstance(c, dict))

    def first_difference(self, n, m):
        """The first step in which the records of two runs differ; None when they do not."""
        words = {"rules": sorted({w for c in self.claims for w in Rules(c).words})}
        words["rules"] += [{"ignore": p} for c in self.claims for p in Rules(c).ignore]
        rules, found = Rules(words), None
        for x, y in by_role(self.runs[n - 1], self.runs[m - 1]):
            step = first_of(x, y, rules)
            if step is not None and (found is None or step < found):
                found = step
        return found


def objects(run, listed):
    """What a kept file of JSON, or of a JSON text on each line, holds; numbers as they
    are written.
    """

    def parsed(text):
        return json.loads(
            text,
            object_pairs_hook=sorted_pairs,
            parse_float=as_written,
            parse_int=as_written,
            parse_constant=as_written,
        )

    with open(run.path(listed.get("kept")), "rb") as f:
        text = f.read(KEPT_MAX)
    try:
        return [parsed(text)]
    except ValueError:
        return [parsed(line) for line in text.splitlines() if line.strip()]


def as_written(digits):
    return ("number", digits)


def sorted_pairs(pairs):
    return {"object": sorted(pairs, key=lambda p: (p[0], str(p[1])))}


def by_role(a, b):
    """Pairs of traces of equal rank, role and attempt, in the order in which they began."""
    sides = []
    for run in (a, b):
        groups = {}
        for s in filter(None, map(run.readable, run.traces())):
            if s.info.records or s.info.steps:
                groups.setdefault((s.info.rank, s.info.role, attempt_of(s)), []).append(s)
        for group in groups.values():
            group.sort(key=lambda s: s.info.start_monotonic_ns)
        sides.append(groups)
    for key, group in sides[0].items():
        others = list(sides[1].get(key, ()))
        for x in group:
            if not others:
                break
            same = [y for y in others if y.prefix == x.prefix]
            y = (same or others)[0]
            others.remove(y)
            yield x, y


def attempt_of(steps):
    """How often the launcher had started the ranks again before."""
    for key, value in steps.trace.notes:
        if key == b"attempt" and re.fullmatch(rb"[0-9]{1,10}", value) and int(value) < 1 << 31:
            return int(value)
    return 0


def attempts_of(run):
    """The last attempt of any process that recorded."""
    recorded = [s for s in filter(None, map(run.readable, run.traces())) if s.info.records]
    return max(map(attempt_of, recorded), default=0)


def first_of(x, y, rules):
    if "steps-of-threads" in rules.words and same_streams(x, y, True):
        return None
    if "threads-cut" in rules.words and same_beginnings(x, y):
        return None
    for step in range(min(x.info.steps, y.info.steps)):
        if step not in x.ends or step not in y.ends:
            continue  # in damaged bytes
        try:
            equal_step(x, y, step, step, rules)
        except Refuted:
            return step
    return None


def is_main(steps):
    return (steps.info.role or b"main").startswith(b"main")


def how_it_ended(run):
    outcome = run.json.get("outcome")
    if outcome == "exited":
        return "exit code %s" % run.json.get("exit_code")
    if outcome == "signaled":
        return "signal %s" % run.json.get("signal")
    return {"not-started": "not started", "interrupted": "interrupted"}.get(outcome, str(outcome))
