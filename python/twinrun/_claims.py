# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds each kind of claim against the recordings.

docs/format/verdict.md lists the kinds and their fields.
"""

import os
from collections import Counter

from . import _said
from ._numbers import Numbers
from ._between import WITH, both_have
from ._parts_of_ranks import put_together
from ._recorded import (
    INIT,
    OPTIMIZER,
    STATE,
    WEIGHT,
    Refuted,
    Rules,
    Run,
    by_window,
    differences,
    equal_step,
    is_given_back,
    items,
    need,
    number,
    printable,
    same_beginnings,
    same_streams,
    say,
    unlike_threads,
    word,
)
from ._roles import ByRole, moved_ranks
from ._shown import Shown, is_main
from .trace import KINDS, PHASES, UNORDERED

CHECKPOINT = PHASES.index("checkpoint")

GRADIENTS, RNG = (KINDS.index("gradient (local)"), KINDS.index("gradient")), PHASES.index("rng")


class Claims(Numbers, Shown):
    """The claims of one verdict and its runs.

    Each method confirms a claim, with a text that says what, or raises Refuted.
    """

    def __init__(self, claims, runs, verdict):
        self.claims, self.runs, self.verdict = claims, runs, verdict
        self.zoomed = {}
        self.wholes = {}  # by pair of traces
        self.moved, self.renamed = (
            {},
            {},
        )  # by pair of runs; by id of the steps, which are kept, too

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
        by_role = "ranks-by-role" in claim.get("rules", ())
        moved = self.roles(claim) if by_role else {}
        need(not by_role or moved, "the runs declare no mesh of ranks in which they can be found")
        for s, numbers in ((x, {}), (y, moved)):
            rank = numbers.get(s.info.rank, s.info.rank)
            need(rank == claim.get("rank"), "%s is of rank %d", s.trace.name, rank)
            role = s.info.role.decode("utf-8", "replace") or "main"
            need(printable(role) == claim.get("process"), "%s is of process %s", s.trace.name, role)
        if by_role:
            x, y = self.named_by_role(x, {}), self.named_by_role(y, moved)
        return self.put_together(claim, x, y)

    def roles(self, claim):
        """{rank of the second run: the first run's of the same place}; {}: by number."""
        runs = tuple(claim["runs"])
        if runs not in self.moved:
            self.moved[runs] = moved_ranks(self.run(claim, 0), self.run(claim, 1))
        return self.moved[runs]

    def named_by_role(self, steps, moved):
        if id(steps) not in self.renamed:
            self.renamed[id(steps)] = steps, ByRole(steps, moved)
        return self.renamed[id(steps)][1]

    def put_together(self, claim, x, y):
        """The same two as they are compared between other numbers of ranks: wholes of what is cut over
        ranks, and what stands for all ranks.
        """
        if "only-weights" not in claim.get("rules", ()):
            return x, y
        key = (x.trace.name, y.trace.name, tuple(claim["runs"]))
        if key not in self.wholes:
            shift = number(claim, "shift", least=-(1 << 32))
            self.wholes[key] = put_together(x, self.run(claim, 0), y, self.run(claim, 1), shift)
        return self.wholes[key]

    def wholes_of(self, claim, name, side):
        """The steps of a trace in which wholes were compared; None: its records were."""
        for c in self.claims:
            mine = c.get("claim") == "same-range" and c.get("runs") == claim["runs"]
            if mine and c["traces"][side] == name and "only-weights" in c.get("rules", ()):
                return self.pair(c)[side]
        return None

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
        stepless = x.info.steps == y.info.steps == 0 and self.have_steps(claim)
        auxiliary = stepless or not is_main(x)
        need(claim.get("auxiliary") is auxiliary, "it is %sauxiliary", "" if auxiliary else "not ")
        inside = first + steps <= x.info.steps and 0 <= first + shift <= y.info.steps - steps
        need(steps == 0 or inside, "the traces do not have these steps")
        if "steps-of-threads" in rules.words:
            any_order = "order-of-threads" in rules.words
            need(same_streams(x, y, any_order), "what the threads recorded differs")
            return "all records, in whatever steps: %d and %d" % (x.info.records, y.info.records)
        if "threads-cut" in rules.words:
            need(same_beginnings(x, y), "what the threads recorded differs")
        if "only-weights" in rules.words and not x.faults and not y.faults:
            self.says_what_was_compared(claim, x, y, rules)
        self.ends_where_they_differ(claim, x, y, first + steps, shift, rules)
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

    def says_what_was_compared(self, claim, x, y, rules):
        """Between other numbers of ranks: were gradients, and optimizer state, compared in one of
        these steps, in the one that differs, or in those that a tolerance judged?
        """
        end, judged = x.info.steps, self.judgement(claim)
        steps, shift = self.steps_looked_at(claim, x, y), claim["shift"]
        alike = end == y.info.steps - shift  # else nothing was compared behind the last step
        tail = claim.get("tail") is True or (judged is not None and number(judged, "last") == end)
        for kind, rule in WITH.items():
            some = any(both_have(x, y, s, s + shift, kind, rules) for s in steps)
            behind = alike and both_have(x, y, end, end + shift, kind, rules)
            said = rule in rules.words
            need(some or behind or not said, "%s: none was compared", rule)
            need(
                said or not (some or (behind and tail)),
                "%s: some were compared, and it does not say so",
                rule,
            )

    def steps_looked_at(self, claim, x, y):
        """Between other numbers of ranks, the steps that were held against each other: the equal
        ones, the one that differs, and what a tolerance judged behind it.
        """
        shift = number(claim, "shift", least=-(1 << 32))
        first, both = max(0, -shift), min(x.info.steps, y.info.steps - shift)
        end, judged = number(claim, "first") + number(claim, "steps"), self.judgement(claim)
        if judged is not None:
            return range(first, min(number(judged, "last") + 1, both))
        if claim["steps"] == 0 and shift < 0 and self.step_differs(claim, x, y, first):
            end = first
        asked = number(self.verdict, "steps", "compared")
        return range(first, end + (end < both and end != first + asked))

    @staticmethod
    def step_differs(claim, x, y, step):
        try:
            equal_step(x, y, step, step + claim["shift"], Rules(claim))
        except Refuted:
            return True
        return False

    def ends_where_they_differ(self, claim, x, y, end, shift, rules):
        """No step that is equal, too, is left out, unless the user asked for so many."""
        asked = number(self.verdict, "steps", "compared")
        both = (
            end < min(x.info.steps, y.info.steps - shift)
            and end in x.ends
            and end + shift in y.ends
        )
        arms = "insertions" in rules.words or "zoom" in claim
        if not both or arms or end == asked or any(r.stopped() for r in self.runs):
            return
        if x.trace.faults or y.trace.faults:
            return
        try:
            equal_step(x, y, end, end + shift, rules)
        except Refuted:
            return
        raise Refuted("step %d is equal, too" % end)

    def have_steps(self, claim):
        """Does a main process of either run have steps?"""
        runs = self.run(claim, 0), self.run(claim, 1)
        return any(is_main(s) and s.info.steps for r in runs for s in map(r.steps, r.traces()))

    # what "equal: ..." may list, and which records it stands for: (phase or None, kind or None)
    LABELS = {
        "sample indices": (None, "indices"),
        "batch": (None, "batch"),
        "inputs of modules": ("data", "in"),
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
        "weights": (None, "weight"),
        "collectives": ("collective", None),
        "operations": ("kernel", None),
    }

    def handed_on(self, x, y, step, other, rules):
        """Do these steps differ in nothing that counts? Parts of weights that take turns need one
        that both have.
        """
        mine, theirs = x.rows.get(step, ()), y.rows.get(other, ())
        different = differences(mine, theirs)
        one_sided = {d.a.seq for d in different if d.a}
        shared = any(self.fits(r, "optimizer", "weight") and r.seq not in one_sided for r in mine)
        return (shared or "only-weights" in rules.words) and all(
            rules.allows(d, x, y, step, other) for d in different
        )

    def equal(self, claim):
        x, y = self.pair(claim)
        step = number(claim, "step")
        other = step + number(claim, "shift", least=-(1 << 32))
        rules = Rules(claim)
        self.is_of_first(claim, step)
        for c in self.ranges(claim) if "zoom" not in claim else ():
            same = c.get("traces") == claim["traces"]
            need(not same or c.get("shift") == claim["shift"], "its steps are shifted otherwise")
        every = differences(x.rows.get(step, ()), y.rows.get(other, ()))
        all_of = [d for d in every if not rules.allows(d, x, y, step, other)]
        partner = {d.a.seq for d in all_of if d.a}
        first, counted = self.first_in(claim, x), 0
        if "insertions" in rules.words:  # at the seam of arms other records correspond
            first = None
        for part in items(claim, "equal"):
            label, n = word(part, "what"), number(part, "records")
            if label == "weights" and part.get("others") is not True:
                need(n == 0, "what was handed on is no record here")
                need(step > 0 or n > 0, "no step before %d handed on weights", step)
                back = any(is_given_back(r.key) for r in x.rows.get(step - 1, ()))
                need(not back, "what a function gave back is not what the next one was given")
                if step > 0 and step - 1 in x.ends and other - 1 in y.ends:
                    # a hash of the phase has gradients and optimizer state that were not compared,
                    # and parts of large weights whose turn it is in one of the runs alone
                    before = x.ends[step - 1].phases.get(OPTIMIZER) == y.ends[other - 1].phases.get(
                        OPTIMIZER
                    )
                    if "only-weights" in rules.words or (
                        not before and "parts-in-turns" in rules.words
                    ):
                        before = self.handed_on(x, y, step - 1, other - 1, rules)
                    need(
                        before,
                        "the weights that left step %d differ",
                        step - 1,
                    )
                continue
            need(label in self.LABELS, "nobody knows what %s are", label)
            phase, kind = self.LABELS[label]
            if label == "weights":  # the others of the one that differs
                phase = self.phase_of_first(claim)
            fits = [r for r in x.rows.get(step, ()) if self.fits(r, phase, kind)]
            others = part.get("others") is True
            differ = any(self.fits(d.a or d.b, phase, kind) for d in all_of)
            need(others == differ, "%s: %s of them differ", label, "some" if differ else "none")
            same = [r for r in fits if r.seq not in partner]
            if others:  # a record that is missing makes the next one the n-th: contents decide here
                theirs = Counter((r.key, r.content) for r in y.rows.get(other, ()))
                same = list((Counter((r.key, r.content) for r in fits) & theirs).elements())
            need(n > 0, "%s of step %d: nothing was compared", label, step)
            need(len(same) >= n, "%s: %d of step %d are equal, not %d", label, len(same), step, n)
            counted += n
            if first and others:  # which of several is the n-th where one is missing, two can say
                least = min(len(same), sum(r.seq not in partner for r in fits))
                need(n >= least, "%s: %d of step %d are equal, not %d", label, least, step, n)
            elif first:
                exact = sum(comes_before(r, first) for r in same)
                need(n == exact, "%s: %d of step %d are equal, not %d", label, exact, step, n)
            need(others or len(same) == len(fits), "not all %s are equal", label)
        total = number(claim, "records")
        need(total >= counted, "%d records were equal", counted)
        if first:
            differ = {d.a.seq for d in every if d.a}
            siblings = KINDS[first.key[1]] in SIBLINGS
            exact = sum(
                r.seq not in differ
                and not r.unread
                and (comes_before(r, first) or (siblings and r.key[:2] == first.key[:2]))
                for r in x.rows.get(step, ())
            )
            need(total == exact, "%d records were equal", exact)
        return "step %d: %d records" % (step, total)

    @staticmethod
    def fits(r, phase, kind):
        """Is it a record that a label stands for?"""
        named = phase is None or PHASES[r.key[0]] == phase
        return named and (kind is None or KINDS[r.key[1]] == kind)

    def is_of_first(self, claim, step):
        """What was equal is told of the step of the first difference."""
        firsts = [c for c in self.claims if c.get("first") is True]
        here = [c for c in firsts if c.get("zoom") == claim.get("zoom")]
        need(
            not here or here[0].get("runs") == claim["runs"],
            "these runs are not those that differ first",
        )
        for c in here:
            if "step" in c:
                first = c["step"][0]
                # what a resumed arm began with lies behind the step that it follows
                seam = "insertions" in Rules(claim).words and first + 1 == step
                need(first == step or seam, "the first difference is in step %s", first)

    def phase_of_first(self, claim):
        for c in self.claims:
            if c.get("first") is True and c.get("zoom") == claim.get("zoom"):
                return c.get("phase")
        return None

    def first_in(self, claim, x):
        """The record of this trace that differs first; None where that is in another process, or in
        the other run alone."""
        for c in self.claims:
            same = c.get("first") is True and c.get("zoom") == claim.get("zoom")
            at = c.get("at") if same else None
            if at and at[0] and at[0]["file"] == claim["traces"][0] and "record" in at[0]:
                return x.at(number(claim, "step"), at[0]["record"])
        return None

    def by_role(self, claim):
        """Were the processes of these runs compared by role?"""
        return any("ranks-by-role" in c.get("rules", ()) for c in self.ranges(claim))

    def record(self, claim, side):
        at = items(claim, "at")[side]
        if at is None:
            return None, None
        need(isinstance(at, dict), "no evidence")
        steps = self.run(claim, side).steps(word(at, "file"))
        whole = self.wholes_of(claim, at["file"], side)
        r = (whole or steps).at(number(at, "step"), number(at, "record"))
        # of a whole the rank is one that holds a part of it in the first run
        ranks = whole.ranks.get(r.key) if whole else None
        if ranks and side == 1:
            ranks = {claim.get("rank")}
        if side == 1 and self.by_role(claim):
            ranks = {self.roles(claim).get(steps.info.rank)}
        need(
            claim.get("rank") in (ranks or {steps.info.rank}),
            "%s is of rank %d",
            at["file"],
            steps.info.rank,
        )
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
        roles = {"origin": ("origin",), "carrier": ("carrier",), "first": ("unknown",)}
        allowed = roles.get(claim.get("claim"), ("origin", "carrier", "unknown"))
        need(claim.get("role") in allowed, "its role is %s", claim.get("role"))
        self.is_recorded_by(claim, x or y, a or b)
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
            need(not made_by_lines(a), "what made it is not recorded: its role is unknown")
            self.inputs(x, y, a, b)
            self.same_threads(claim, a)
        need(_said.fits(claim, x, y, a, b), "that is not how they differ: %s", claim.get("text"))
        return "step %d, %s" % (a.step if a else b.step, printable((a or b).key[2]))

    def is_recorded_by(self, claim, steps, r):
        role = steps.info.role.decode("utf-8", "replace") or "main"
        thread = r.key[4]
        process = "%s, %s" % (role, thread) if thread else role
        need(printable(process) == claim.get("process"), "process %s recorded it", process)

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

    def shift_of(self, claim, name, side):
        """By how much the steps of a trace's counterpart are shifted, as the equal
        ranges have it.
        """
        for s in self.claims:
            here = s.get("claim") in ("same-range", "equal") and s.get("runs") == claim["runs"]
            if here and s.get("zoom") == claim.get("zoom") and s["traces"][side] == name:
                return s.get("shift", 0)
        return 0

    def only_in(self, claim, steps, r, side):
        at = items(claim, "at")[1 - side]
        other = self.other_trace(claim, at["file"], side)
        if other is None:
            return
        step = number(claim, "step", side)
        need(
            claim["step"][1] - claim["step"][0] == self.shift_of(claim, at["file"], 1 - side),
            "these steps do not correspond",
        )
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
        rules = Rules({"rules": ["idle-generators", "set-generators"] + ["insertions"] * arms})
        for d in differences(x.rows.get(a.step, ()), y.rows.get(b.step, ())):
            r = d.a or d.b
            before = d.a.seq < a.seq if d.a else d.b.seq < b.seq
            begins = arms and r.key[0] == INIT  # what a resumed arm starts with has no counterpart
            if before and not begins and not rules.allows(d, x, y, a.step, b.step):
                need(not may_cause(r.key, a.key), "%s before it, and may be its cause", say(d))

    def same_threads(self, claim, r):
        """What PyTorch computed, but for one operation by itself, was computed with as many threads."""
        kind, phase = KINDS[r.key[1]], PHASES[r.key[0]]
        if phase in ("kernel", "init") or kind not in COMPUTED:
            return
        if kind == "weight" and phase != "optimizer":
            return
        told = [self.run(claim, side).threads(claim["at"][side]["file"]) for side in range(2)]
        numbers = unlike_threads(*told)
        need(not numbers, "it was computed with other numbers of threads: %s", numbers)


COMPUTED = ("activation", "loss", "gradient (local)", "gradient", "moment", "weight")
OUTPUT = PHASES.index("forward"), KINDS.index("activation")
SIBLINGS = ("weight", "gradient (local)", "gradient", "moment")


def made_by_lines(r):
    """Do lines of the job make it, which are not recorded?"""
    phase, kind = PHASES[r.key[0]], KINDS[r.key[1]]
    if is_given_back(r.key):
        return False
    if kind in ("batch", "indices"):
        return phase == "data"
    return (
        kind == "hyper"
        or (kind == "value" and not r.links)
        or (phase == "init" and kind != "state")
    )


def comes_before(r, first):
    """Does a record stand before the first difference? A model is announced when it is called."""
    return r.seq < first.seq or (r.key[0] == INIT and first.key[0] != INIT)


def is_seam(a, b):
    """What the first arm ended a step with, held against what a resumed arm starts with."""
    return bool(a and b) and b.key[0] == INIT and b.step == 0 and a.key[0] != INIT


def may_cause(cause, of):
    """Can a difference in one record be why another, later in the step, differs?

    Known not to: initial values and gradients among each other, batches and initial values, other
    generators, weights for moments, which are read out after them, and what was saved to a file.
    """
    cause, of = (OUTPUT + k[2:] if is_given_back(k) else k for k in (cause, of))
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
        return KINDS[cause[1]] == "indices" and KINDS[of[1]] == "batch"
    if KINDS[of[1]] == "moment" and cause[0] == OPTIMIZER and cause[1] == WEIGHT:
        return False
    return True
