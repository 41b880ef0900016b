# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds each kind of claim against the recordings.

docs/format/verdict.md lists the kinds and their fields.
"""

import os
from collections import Counter

from . import _lines
from ._recorded import (
    INIT,
    OPTIMIZER,
    STATE,
    WEIGHT,
    Rules,
    Refuted,
    Run,
    by_window,
    differences,
    equal_step,
    items,
    need,
    number,
    printable,
    same_streams,
    say,
    word,
)
from .trace import KINDS, PHASES, UNORDERED

CHECKPOINT = PHASES.index("checkpoint")

GRADIENTS, RNG = (KINDS.index("gradient (local)"), KINDS.index("gradient")), PHASES.index("rng")


class Claims:
    """The claims of one verdict and its runs.

    Each method confirms a claim, with a text that says what, or raises Refuted.
    """

    def __init__(self, claims, runs, verdict):
        self.claims, self.runs, self.verdict = claims, runs, verdict
        self.zoomed = {}

    def run(self, claim, side):
        run = self.runs[number(claim, "runs", side, least=1, most=len(self.runs)) - 1]
        return self.beside(run, items(claim, "zoom")[side]) if "zoom" in claim else run

    def beside(self, run, name):
        """A run of a zoom pair: its folder stands beside those of the runs."""
        plain = isinstance(name, str) and name and os.path.basename(name) == name and name[0] != "."
        need(plain and "\0" not in name, "no folder name")
        folder = os.path.join(os.path.dirname(run.folder), name)
        need(os.path.isdir(folder), "the zoom pair is not here: %s", name)
        if name not in self.zoomed:
            self.zoomed[name] = Run(folder)
        return self.zoomed[name]

    def pair(self, claim):
        names = items(claim, "traces")
        need(len(names) == 2, "a claim about two traces names %d", len(names))
        x, y = self.run(claim, 0).steps(names[0]), self.run(claim, 1).steps(names[1])
        for s in (x, y):
            need(s.info.rank == claim.get("rank"), "%s is of rank %d", s.trace.name, s.info.rank)
            role = s.info.role.decode("utf-8", "replace") or "main"
            need(printable(role) == claim.get("process"), "%s is of process %s", s.trace.name, role)
        return x, y

    def same_range(self, claim):
        x, y = self.pair(claim)
        rules = Rules(claim)
        first, steps, shift = (
            number(claim, "first"),
            number(claim, "steps"),
            number(claim, "shift", least=-(1 << 32)),
        )
        for side, s in enumerate((x, y)):
            need(
                s.info.steps == number(claim, "of", side),
                "%s has %d steps",
                s.trace.name,
                s.info.steps,
            )
            need(
                s.info.records == number(claim, "records", side),
                "%s has %d records",
                s.trace.name,
                s.info.records,
            )
        inside = first + steps <= x.info.steps and 0 <= first + shift <= y.info.steps - steps
        need(steps == 0 or inside, "the traces do not have these steps")
        if "steps-of-threads" in rules.words:
            any_order = "order-of-threads" in rules.words
            need(same_streams(x, y, any_order), "what the threads recorded differs")
            return "all records, in whatever steps: %d and %d" % (x.info.records, y.info.records)
        hole = None
        for s in range(first, first + steps):
            if s in x.ends and s + shift in y.ends:
                equal_step(x, y, s, s + shift, rules)
            else:
                hole = s
        if hole is not None:
            by_window(x, y, first, steps, shift)
        if claim.get("tail") is True:
            for d in differences(x.rows.get(x.info.steps, ()), y.rows.get(y.info.steps, ())):
                need(
                    rules.allows(d, x, y, x.info.steps, y.info.steps),
                    "after the last step: %s",
                    say(d),
                )
        return "%d step%s from %d" % (steps, "" if steps == 1 else "s", first)

    # what "equal: ..." may list, and which records it stands for: (phase or None, kind or None)
    LABELS = {
        "sample indices": (None, "indices"),
        "batch": (None, "batch"),
        "generator states": (None, "state"),
        "initial weights": ("init", "weight"),
        "activations": (None, "activation"),
        "loss": (None, "loss"),
        "local gradients": (None, "gradient (local)"),
        "gradients": (None, "gradient"),
        "hyperparameters": (None, "hyper"),
        "optimizer state": (None, "moment"),
        "moments": (None, "moment"),
        "updated weights": ("optimizer", "weight"),
        "recorded values": (None, "value"),
        "collectives": ("collective", None),
        "operations": ("kernel", None),
    }

    def equal(self, claim):
        x, y = self.pair(claim)
        step = number(claim, "step")
        other = step + number(claim, "shift", least=-(1 << 32))
        rules = Rules(claim)
        all_of = [
            d
            for d in differences(x.rows.get(step, ()), y.rows.get(other, ()))
            if not rules.allows(d, x, y, step, other)
        ]
        partner = {d.a.seq for d in all_of if d.a}
        for part in items(claim, "equal"):
            label, n = word(part, "what"), number(part, "records")
            if label == "weights":
                need(step > 0 or n > 0, "no step before %d handed on weights", step)
                if step > 0 and step - 1 in x.ends and other - 1 in y.ends:
                    need(
                        x.ends[step - 1].phases.get(OPTIMIZER)
                        == y.ends[other - 1].phases.get(OPTIMIZER),
                        "the weights that left step %d differ",
                        step - 1,
                    )
                continue
            need(label in self.LABELS, "nobody knows what %s are", label)
            phase, kind = self.LABELS[label]
            fits = [
                r
                for r in x.rows.get(step, ())
                if (phase is None or PHASES[r.key[0]] == phase)
                and (kind is None or KINDS[r.key[1]] == kind)
            ]
            others = part.get("others") is True
            same = [r for r in fits if r.seq not in partner]
            if others:  # a record that is missing makes the next one the n-th: contents decide here
                theirs = Counter((r.key, r.content) for r in y.rows.get(other, ()))
                same = list((Counter((r.key, r.content) for r in fits) & theirs).elements())
            need(n > 0, "%s of step %d: nothing was compared", label, step)
            need(len(same) >= n, "%s: %d of step %d are equal, not %d", label, len(same), step, n)
            need(others or len(same) == len(fits), "not all %s are equal", label)
        return "step %d: %d records" % (step, number(claim, "records"))

    def record(self, claim, side):
        at = items(claim, "at")[side]
        if at is None:
            return None, None
        need(isinstance(at, dict), "no evidence")
        steps = self.run(claim, side).steps(word(at, "file"))
        need(steps.info.rank == claim.get("rank"), "%s is of rank %d", at["file"], steps.info.rank)
        r = steps.at(number(at, "step"), number(at, "record"))
        need(
            "%016x%016x" % r.digest == at.get("digest"),
            "record %d of step %d has the digest %016x%016x",
            r.seq,
            r.step,
            *r.digest,
        )
        return steps, r

    def finding(self, claim):
        """A record that differs, by its number in both traces."""
        need(len(items(claim, "at")) == 2, "evidence of two runs is wanted")
        if claim["runs"][0] is None:
            return self.against(claim)
        x, a = self.record(claim, 0)
        y, b = self.record(claim, 1)
        kind = word(claim, "type")
        if not a and not b:
            need(claim.get("kind") == "none", "there is no evidence")
            return self.hash_only(claim)
        need(a and b or kind in ("only-a", "only-b"), "evidence of two runs is wanted")
        at_seam = is_seam(a, b)
        for r in filter(None, (a, None if at_seam else b)):
            self.is_named(claim, r)
        if a and b:
            same = a.key[1:3] == b.key[1:3] if at_seam else a.key == b.key
            need(same, "the two records are not the same thing")
            need(
                (a.content != b.content) == (kind in ("value", "layout")),
                "the two records are %s",
                "equal" if a.content == b.content else "not equal",
            )
        if kind == "layout":
            need(a.content[0] != b.content[0], "the layouts are equal")
        if kind in ("only-a", "only-b"):
            need(
                bool(a) == (kind == "only-a") and bool(b) == (kind == "only-b"),
                "there is a record on the other side",
            )
            self.only_in(claim, x or y, a or b, 1 if a else 0)
        need(
            claim.get("step")
            == [a.step if a else claim["step"][0], b.step if b else claim["step"][1]],
            "the records are of other steps",
        )
        if kind == "order":
            self.other_order(x, y, a, b)
        elif claim.get("role") == "origin" and a and b and not at_seam:
            self.inputs(x, y, a, b)
        return "step %d, %s" % (a.step if a else b.step, printable((a or b).key[2]))

    def against(self, claim):
        """Held against a baseline: what the run recorded is looked up, the other side is a file."""
        r = self.record(claim, 1)[1]
        if r is None:
            return "nothing of the run"
        self.is_named(claim, r)
        return "step %d, %s" % (r.step, printable(r.key[2]))

    def is_named(self, claim, r):
        name, phase, what = printable(r.key[2]), PHASES[r.key[0]], KINDS[r.key[1]]
        need(
            (name, phase, what) == (claim.get("name"), claim.get("phase"), claim.get("kind")),
            "record %d of step %d is %s/%s %s",
            r.seq,
            r.step,
            phase,
            what,
            name,
        )
        scope = printable(r.key[3])
        need(scope == claim.get("scope"), "record %d of step %d is in %s", r.seq, r.step, scope)

    def hash_only(self, claim):
        step = number(claim, "step", 0), number(claim, "step", 1)
        for s in self.claims:
            if (
                s.get("claim") == "same-range"
                and s.get("runs") == claim["runs"]
                and s.get("rank") == claim.get("rank")
            ):
                x, y = self.pair(s)
                if (
                    step[0] in x.ends
                    and step[1] in y.ends
                    and x.ends[step[0]].phases != y.ends[step[1]].phases
                ):
                    return "step %d: the sums over its records differ" % step[0]
        raise Refuted("no evidence: the sums of step %d are equal" % step[0])

    def other_trace(self, claim, name, side):
        """The trace of run `side` (0, 1) that was held against this one."""
        for s in self.claims:
            if (
                s.get("claim") in ("same-range", "equal")
                and s.get("runs") == claim["runs"]
                and s.get("zoom") == claim.get("zoom")
                and name in s.get("traces", [])
            ):
                return self.run(claim, side).steps(s["traces"][side])
        return None

    def only_in(self, claim, steps, r, side):
        at = items(claim, "at")[1 - side]
        other = self.other_trace(claim, at["file"], side)
        if other is None:
            return
        step = number(claim, "step", side)
        mine = [q for q in steps.rows.get(r.step, ()) if q.key == r.key]
        theirs = [q for q in other.rows.get(step, ()) if q.key == r.key]
        more = (
            Counter(q.content for q in mine)[r.content]
            > Counter(q.content for q in theirs)[r.content]
        )
        need(len(mine) > len(theirs) or more, "the other run has this record, too")

    def other_order(self, x, y, a, b):
        """The same records in another order; where one run was cut off, as far as it goes."""
        mine, theirs = (
            [(r.key, r.content) for r in s.rows.get(q.step, ()) if not r.flags & UNORDERED]
            for s, q in ((x, a), (y, b))
        )
        both = Counter(mine) & Counter(theirs)
        need(sum(both.values()) == min(len(mine), len(theirs)), "these are not the same records")
        mine, theirs = ([r for r in rows if r in both] for rows in (mine, theirs))
        need(mine != theirs, "the records come in the same order")

    def inputs(self, x, y, a, b):
        """An origin: what it was made from is equal in both runs, and was seen."""
        for link_a, link_b in zip(a.links, b.links):
            p, q = x.at(link_a >> 32, link_a & 0xFFFFFFFF), y.at(link_b >> 32, link_b & 0xFFFFFFFF)
            need(not p.unread and not q.unread, "input %s was not seen", printable(p.key[2]))
            need(
                p.key[:3] != q.key[:3] or p.content == q.content,
                "input %s (record %d of step %d) differs",
                printable(p.key[2]),
                p.seq,
                p.step,
            )
        if a.links:
            return
        arms = any("insertions" in Rules(c).words for c in self.claims if isinstance(c, dict))
        rules = Rules({"rules": ["idle-generators"] + ["insertions"] * arms})
        for d in differences(x.rows.get(a.step, ()), y.rows.get(b.step, ())):
            r = d.a or d.b
            before = d.a.seq < a.seq if d.a else d.b.seq < b.seq
            begins = arms and r.key[0] == INIT  # what a resumed arm starts with has no counterpart
            if before and not begins and not rules.allows(d, x, y, a.step, b.step):
                need(not may_cause(r.key, a.key), "%s before it, and may be its cause", say(d))

    def outcome(self, claim):
        a, b = self.run(claim, 0), self.run(claim, 1)
        name = claim.get("name")
        if name == "how the job ended":
            ends = [
                (r.json.get("outcome"), r.json.get("exit_code"), r.json.get("signal"))
                for r in (a, b)
            ]
            need(ends[0] != ends[1] and (a.failed() or b.failed()), "both runs ended alike")
            return "%s and %s" % tuple(map(str, ends))
        counts = [
            Counter(
                (s.info.rank, s.info.role, s.info.steps)
                for s in map(r.steps, r.traces())
                if s.info.records or s.info.steps
            )
            for r in (a, b)
        ]
        need(
            counts[0] != counts[1],
            "the runs have the same processes with the same numbers of steps",
        )
        return name

    def without_counterpart(self, claim):
        run = self.runs[number(claim, "run", least=1, most=len(self.runs)) - 1]
        steps = run.steps(word(claim, "trace"))
        need(
            steps.info.rank == claim.get("rank")
            and steps.info.steps == claim.get("steps")
            and steps.info.records == claim.get("records"),
            "%s is another process",
            claim["trace"],
        )
        paired = [
            c
            for c in self.claims
            if c.get("claim") == "same-range"
            and c.get("runs") == claim["runs"]
            and claim["trace"] in c.get("traces", [])[claim["run"] != claim["runs"][0] :][:1]
        ]
        need(not paired, "%s was compared", claim["trace"])
        return claim["trace"]

    def noise(self, claim):
        """Lines that say the same in both runs once facts, times and speeds are masked."""
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
        if claim.get("type") == "output":
            need(Counter(a.stream(name)) != Counter(b.stream(name)), "%s is the same", name)
            return word(claim, "text")
        at = items(claim, "at")
        other = at[1]["file"] if at[1] else name
        x, y = a.files().get(name), b.files().get(other)
        need(
            x and y and x.get("sha256") != y.get("sha256"), "%s is the same file in both runs", name
        )
        return word(claim, "text")

    def artifact(self, claim):
        a, b = self.run(claim, 0), self.run(claim, 1)
        if claim.get("type") == "output":
            mine, theirs = a.stream(claim["name"]), b.stream(claim["name"])
            need(
                Counter(mine) != Counter(theirs),
                "%s has the same lines in both runs",
                claim["name"],
            )
            at = items(claim, "at")
            for lines, where in ((mine, at[0]), (theirs, at[1])):
                need(
                    where is None or 1 <= number(where, "line") <= len(lines),
                    "there is no such line",
                )
            if at[0] and at[1]:
                need(
                    mine[at[0]["line"] - 1] != theirs[at[1]["line"] - 1], "the two lines are equal"
                )
            return claim["name"]
        x, y = a.files(), b.files()
        name = claim.get("name")
        at = items(claim, "at")
        other = at[1]["file"] if at[1] else name
        need(name in x or other in y, "no run wrote %s", name)
        need(
            x.get(name, {}).get("sha256") != y.get(other, {}).get("sha256"),
            "%s has the same contents in both runs",
            name,
        )
        return name

    def lost(self, claim):
        first, last = number(claim, "first"), number(claim, "last")
        for run in self.runs:
            for name in run.traces():
                s = run.steps(name)
                n = sum(n for step, n in s.trace.gaps if first <= step <= last)
                if s.info.rank == claim.get("rank") and n == claim.get("records"):
                    return "steps %d to %d: %d records" % (first, last, n)
        raise Refuted("no trace lost these records")

    def classes(self, claim):
        runs = [
            number(claim, "runs", i, least=1, most=len(self.runs))
            for i in range(len(items(claim, "runs")))
        ]
        others = [c for c in self.claims if c.get("claim") == "class" and c is not claim]
        need(
            runs and not any(set(runs) & set(c.get("runs", [])) for c in others),
            "a run stands in two classes",
        )
        return "runs %s" % ", ".join(map(str, runs))


def is_seam(a, b):
    """What the first arm ended a step with, held against what a resumed arm starts with."""
    return bool(a and b) and b.key[0] == INIT and b.step == 0 and a.key[0] != INIT


def may_cause(cause, of):
    """Can a difference in one record be why another, later in the step, differs?

    Known not to: initial values and gradients among each other, batches and initial values, other
    generators, weights for moments, which are read out after them, and what was saved to a file.
    """
    if cause[0] == CHECKPOINT and of[0] != CHECKPOINT:
        return False
    if cause[1] == STATE or cause[0] == RNG:
        return not (of[1] == STATE and of[2] != cause[2])
    if cause[:2] == of[:2] and (
        cause[0] in (INIT, OPTIMIZER)
        or cause[1] in GRADIENTS
        or KINDS[cause[1]] in ("batch", "indices", "hyper")
    ):
        return False
    early = (INIT, PHASES.index("data"))
    if cause[0] in early and of[0] in early:
        return KINDS[cause[1]] == "indices" and KINDS[of[1]] == "batch" and False
    if KINDS[of[1]] == "moment" and cause[0] == OPTIMIZER and cause[1] == WEIGHT:
        return False
    return True
