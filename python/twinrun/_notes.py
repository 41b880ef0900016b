# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds the notes of a verdict against the recordings.

A note is a sentence. FORMS has those that say what can be looked up in the run folders, each with
the method that looks; all others are stated: they tell of something outside of the recordings (a
time limit, a run that was thrown away), or advise.
"""

import math
import re

from ._between import WITH, both_have, weights_in
from ._recorded import (
    GRADIENT,
    INIT,
    MOMENT,
    OPTIMIZER,
    STATE,
    WEIGHT,
    NotHere,
    Refuted,
    Rules,
    differences,
    equal_step,
    moves,
    need,
    printable,
    set_again,
    unlike_threads,
)
from ._roles import moved_ranks
from ._shown import attempts_of, how_it_ended
from ._tolerance import LIMITS
from .trace import KINDS, PHASES, UNORDERED

NAMED = {GRADIENT: "gradients", MOMENT: "optimizer state"}
# how a sentence names what was compared between other numbers of ranks
STATE_COMPARED = {
    "weights": set(),
    "weights and gradients": {GRADIENT},
    "weights and optimizer state": {MOMENT},
    "weights, gradients and optimizer state": {GRADIENT, MOMENT},
}
LOCAL, VALUE = KINDS.index("gradient (local)"), KINDS.index("value")
# "weights of step 2, and the weights of steps 0 to 1"; what is equal in the step itself; neither
BEFORE = re.compile(
    r"(?:(?!the )(?:(?!, and the ).)* of step (\d+)(?: \(\d+ records?\))?)?"
    r"(?:(?:, and |^)the weights of steps? (\d+)(?: to (\d+))?)?",
    re.S,
)
FORMS = []


def form(pattern):
    """The method below confirms or refutes notes of this form; the pattern's groups are its
    arguments.
    """

    def keep(method):
        FORMS.append((re.compile(pattern, re.S), method))
        return method

    return keep


class Notes:
    """Notes, beside the claims of _claims.Claims."""

    def note(self, claim):
        """(state, text)"""
        text = claim.get("text")
        need(isinstance(text, str), "a note without a text")
        need(text in self.verdict.get("notes", ()), "the verdict has no such note")
        for pattern, method in FORMS if self.verdict.get("against") is None else ():
            m = pattern.fullmatch(text)
            if m:
                try:
                    method(self, *m.groups())
                except NotHere as missing:
                    return "stated", "%s (%s)" % (text[:200], missing)
                return "confirmed", text[:200]
        return "stated", text[:200]

    # ---- what notes speak of

    def run_named(self, number):
        k = int(number)
        need(1 <= k <= len(self.runs), "there is no run %d", k)
        return self.runs[k - 1]

    def first_claim(self):
        """What differs first, in the runs themselves; None where that is no record of theirs."""
        first = [
            c for c in self.claims if c.get("first") is True and isinstance(c.get("runs"), list)
        ]
        return first[0] if first else None

    def compared(self, runs=None):
        """(claim, trace of the first run, trace of the other) of what was compared."""
        first = self.first_claim()
        runs = runs or (first["runs"] if first else [1, 2])
        return [(c, *self.pair(c)) for c in self.ranges({"runs": runs})]

    @staticmethod
    def end_of(c):
        return c["first"] + c["steps"]

    def differ_at_end(self, runs=None):
        """Of what was compared: those whose next step, or what came after the last one, differs."""
        main = [t for t in self.compared(runs) if not t[0].get("auxiliary")]
        return [t for t in main if self.differs(*t)]

    def differs(self, c, x, y):
        step, other, rules = self.end_of(c), self.end_of(c) + c["shift"], Rules(c)
        if step > x.info.steps or other > y.info.steps:
            return False
        if step == x.info.steps or other == y.info.steps:
            rows = x.rows.get(step, ()), y.rows.get(other, ())
            return any(not rules.allows(d, x, y, step, other) for d in differences(*rows))
        try:
            equal_step(x, y, step, other, rules)
        except Refuted:
            return True
        return False

    # ---- how the runs ended, and what they have

    @form(
        r"run (\d+): (exit code \d+|signal \d+ .*|not started .*|interrupted), (\d+) steps recorded"
    )
    def ended(self, k, how, steps):
        run = self.run_named(k)
        need(how.startswith(how_it_ended(run)), "it ended with %s", how_it_ended(run))
        most = max((s.info.steps for s in filter(None, map(run.readable, run.traces()))), default=0)
        need(int(steps) == most, "%d steps were recorded", most)

    @form(
        r"run (\d+) has (\d+) ranks?, run (\d+) (\d+): only rank 0's (weights[a-z ,]*?)"
        r"(?:, and those that the ranks hold parts of,)? can be compared(.*)"
    )
    def worlds(self, j, n, k, m, what, more):
        for run, size in ((j, n), (k, m)):
            traces = [self.run_named(run).steps(name) for name in self.run_named(run).traces()]
            most = max((s.info.world for s in traces), default=0)
            need(int(size) == most, "run %s has %d ranks", run, most)
        self.state_compared([int(j), int(k)], what, more)

    @form(
        r"the ranks of run (\d+) and run (\d+) hold other parts of weights: only rank 0's "
        r"(weights[a-z ,]*?)(?:, and those that the ranks hold parts of,)? can be compared(.*)"
    )
    def other_parts(self, j, k, what, more):
        self.state_compared([int(j), int(k)], what, more)

    def state_compared(self, runs, what, more):
        """Does a sentence name what was compared in each step between two runs of other numbers of
        ranks, and what in some?
        """
        need(what in STATE_COMPARED, "nobody knows %s", what)
        looked, held = self.state_of(runs)
        every, some = self.parted(looked, held)
        need(STATE_COMPARED[what] == every, "in each step it was other records")
        listed = []
        for kind in (k for k in NAMED if k in some):
            steps = held[kind]
            where = "in %d of %d, " % (len(steps), looked)
            if not steps:
                where = "at the end of the job alone"
            elif len(steps) == 1:
                where += "step %d" % steps[0]
            else:
                where += "the first step %d and the last step %d" % (min(steps), max(steps))
            listed.append(", %s %s" % (NAMED[kind], where))
        expected = " in every step" * bool(listed) + "".join(listed)
        need(more == expected, "what some steps have: %s", expected or "nothing more")

    def state_of(self, runs):
        """(how many steps of two runs of other numbers of ranks were compared, {kind: those of which
        both had gradients, or optimizer state}); without a kind of which nothing was compared.
        """
        looked, held = 0, {}
        for c, x, y in self.compared(runs):
            steps = self.steps_looked_at(c, x, y)
            looked += len(steps)
            for kind in WITH:
                both = [s for s in steps if both_have(x, y, s, s + c["shift"], kind, Rules(c))]
                if both or WITH[kind] in Rules(c).words:
                    held.setdefault(kind, []).extend(both)
        return looked, held

    @staticmethod
    def parted(looked, held):
        """The kinds that each step has, and those that some have, or the end of the job."""
        every = {kind for kind, steps in held.items() if len(steps) == looked}
        return every, set(held) - every

    def equal_before_said(self):
        """Of the steps before the first difference nothing but weights is said to be equal where the
        numbers of ranks differ, and that only where each of these steps had them.
        """
        text, first = self.verdict.get("equal_before"), self.first_claim()
        if not text or not first or "step" not in first or "zoom" in first:
            return
        for c, x, y in self.compared(first["runs"]):
            if "only-weights" not in Rules(c).words or c.get("rank") != first.get("rank"):
                continue
            m = BEFORE.fullmatch(text)
            need(m, "of the steps before no more than weights is known: %s", text)
            need(m[1] is None or int(m[1]) == first["step"][0], "the first is of another step")
            for step in range(int(m[2]), int(m[3] or m[2]) + 1) if m[2] else ():
                need(step < self.end_of(c), "step %d is not equal", step)
                held = weights_in(x, y, step, step + c["shift"], Rules(c))
                need(held, "step %d has no weights", step)

    @form(
        r"between .* ranks (weights[a-z ,]*?)( alone)? are compared, after each step and by their "
        r"whole content, .*?; (?:(gradients|optimizer state|gradients and optimizer state) in some of "
        r"these runs or steps alone; )?(gradients, )?(optimizer state, )?batches and losses are not"
    )
    def between_numbers(self, what, alone, partly, gradients, moments):
        ranks = self.verdict.get("ranks") or [0] * len(self.runs)
        across = [i for i in range(2, len(self.runs) + 1) if ranks[i - 1] != ranks[0]]
        claimed = [i for i in across if self.ranges({"runs": [1, i]})]
        found = [self.parted(*self.state_of([1, i])) for i in claimed]
        every = set.intersection(*(e for e, _ in found)) if found else set()
        some = set().union(*(e | s for e, s in found)) - every
        said = STATE_COMPARED.get(what, {None})
        named = {k for k in NAMED if partly and NAMED[k] in partly}
        denied = {k for k, word in ((GRADIENT, gradients), (MOMENT, moments)) if word}
        need(said | named | denied == set(NAMED), "it does not say what of all")
        need(len(said) + len(named) + len(denied) == len(NAMED), "it says two things of one kind")
        need(bool(alone) == (not said and not named), "weights alone, or not")
        # of a comparison after one that differed nothing is claimed
        whole = len(claimed) == len(across)
        need(said <= every and (said == every or not whole), "of all of these it was other records")
        need(not denied & (every | some), "some were compared")
        need(named <= every | some if whole else True, "none of these was compared")

    @form(
        r"(gradients|optimizer state) of run (\d+)(?: and run (\d+))?, such as (.*), "
        r"(?:were|was) not compared: (.*?)"
    )
    def not_held(self, what, j, k, name, why):
        """Of tensors that do not stand for all ranks of their run."""
        kind = GRADIENT if what == "gradients" else MOMENT
        wanted = {int(n) for n in (j, k) if n}
        for c in self.claims:
            runs = c.get("runs") if c.get("claim") == "same-range" else None
            if "only-weights" not in c.get("rules", ()) or not runs or not wanted <= set(runs):
                continue
            pair = self.pair(c)
            told = [pair[runs.index(n)].held.names_of(kind, why) for n in wanted]
            if all(told) and any(name in names for names in told):
                return
        raise Refuted("that is not so of %s" % name)

    @form(
        r"ranks are compared by their places in the mesh that both runs declare, .*, and named by "
        r"their numbers in run (\d+); run (\d+) numbers (\d+) of them otherwise: (.*)"
    )
    def by_places(self, j, k, n, listed):
        moved = moved_ranks(self.run_named(j), self.run_named(k))
        other = {r: as_rank for r, as_rank in moved.items() if r != as_rank}
        need(len(other) == int(n), "%d ranks have another number", len(other))
        for first, second in re.findall(r"rank (\d+) \([^)]*\) is rank (\d+) there", listed):
            need(other.get(int(second)) == int(first), "rank %s is not rank %s", first, second)

    @form(r"ranks are compared by their numbers: .*")
    def by_numbers(self):
        for k in range(2, len(self.runs) + 1):
            if not moved_ranks(self.run_named(1), self.run_named(k)):
                return
        raise Refuted("the runs declare one mesh of ranks")

    @form(r"rank (\d+): only the (\d+) steps both have were compared")
    def only_those_of_both(self, rank, steps):
        both = [
            min(x.info.steps, y.info.steps - c["shift"]) - max(0, -c["shift"])
            for c, x, y in self.compared()
            if c["rank"] == int(rank)
        ]
        need(int(steps) in both, "both have %s", both)

    @form(r"rank (-?\d+).* recorded only in run (\d+): its (\d+) steps were compared with nothing")
    def alone(self, rank, k, steps):
        found = [c for c in self.claims if c.get("claim") == "only-in" and c.get("run") == int(k)]
        same = [c for c in found if c.get("rank") == int(rank) and c.get("steps") == int(steps)]
        need(same, "no process of run %s has no counterpart and so many steps", k)

    @form(r"files that the job wrote were not compared: a run was stopped before its end")
    def stopped(self):
        need(any(r.stopped() for r in self.runs), "no run was stopped")

    @form(r"every run wrote (.+?)(?: and (\d+) more files?)?: a later one may have read .*")
    def every_run_wrote(self, name, more):
        shared = set.intersection(*(set(r.files()) for r in self.runs[:2]))
        need(name in shared, "not every run wrote %s", name)
        need(len(shared) >= 1 + int(more or 0), "%d files are of every run", len(shared))

    # ---- what was compared, and how

    @form(r"left out by --ignore 'line:...': (\d+) lines? of (stdout|stderr) of each run")
    def filtered(self, n, stream):
        patterns = {p[5:] for c in self.claims for p in Rules(c).ignore if p.startswith("line:")}
        for run in self.runs[:2]:
            lines = [t.decode("utf-8", "replace") for t in run.stream(stream)]
            left = sum(any(re.search(p, t) for p in patterns) for t in lines)
            need(int(n) == left, "%d lines match", left)

    @form(
        r"left out by --ignore 'number:...': single numbers that differ, (\d+) between run (\d+) "
        r"and run (\d+)"
    )
    def numbers_left_out(self, n, j, k):
        found = [
            1
            for c, x, y in self.compared([int(j), int(k)])
            for _, d in self.all_differences(x, y, c["shift"])
            if Rules(c).leaves_number(d)
        ]
        need(int(n) == len(found), "%d numbers differ there", len(found))

    @form(
        r"of all records of run (\d+) and run (\d+) only single floating-point numbers of (\w+) "
        r"differ, in steps (\d+) to (\d+)\. They may be elapsed times, or results: that was not "
        r"tried\. If they are times: --ignore 'number:(\d+)-(\d+):collective/\*/([\w*]+)'"
    )
    def only_numbers(self, j, k, what, first, last, low, high, name):
        need((low, high) == (first, last), "the pattern has other steps")
        need(name == ("*" if what == "collectives" else what), "the pattern has another name")
        of_run = Rules({"rules": [{"ignore": "number:%s-%s:collective/*/%s" % (low, high, name)}]})
        steps = []
        for c, x, y in self.compared([int(j), int(k)]):
            need(not any(e.dropped for s in (x, y) for e in s.ends.values()), "details are missing")
            need(not x.faults and not y.faults, "a trace is damaged")
            for step, d in self.all_differences(x, y, c["shift"]):
                if Rules(c).allows(d, x, y, step, step + c["shift"]):
                    continue
                need(of_run.leaves_number(d), "step %d: something else differs", step)
                steps.append(step)
        need(steps and min(steps) == int(first), "none differs in step %s", first)
        need(max(steps) == int(last), "the last that differs is of step %d", max(steps))

    @staticmethod
    def all_differences(x, y, shift):
        """(step, difference) of two traces, over all of their steps."""
        every = sorted(set(x.rows) | {s - shift for s in y.rows})
        return [
            (step, d)
            for step in every
            for d in differences(x.rows.get(step, ()), y.rows.get(step + shift, ()))
        ]

    @form(r"values that the job records itself were compared, too")
    def own_values(self):
        rows = [r for _, x, _ in self.compared() for step in x.rows.values() for r in step]
        need(any(r.key[1] == VALUE for r in rows), "the job recorded none")

    @form(
        r"JAX computed outside of jitted functions, too: of that only what such functions are "
        r"given was compared"
    )
    def beside_jitted(self):
        keys = {k for _, x, _ in self.compared() for k, _value in x.trace.notes}
        need(b"jax.eager" in keys, "no process has noted that")

    @form(r"not everything was seen: (.*)")
    def unseen_note(self, what):
        need(what in self.verdict.get("unseen", ()), "that is not among what was not seen")

    @form(r"all records are equal: what differs was made by something that was not seen")
    def made_elsewhere(self):
        first = self.first_claim()
        need(first and "step" not in first, "a record differs")
        for c, _, _ in self.compared():
            self.same_range(c)
        need(not self.differ_at_end(), "records differ")

    @form(
        r"all records that were compared are equal: what differs was made by something that was "
        r"not seen, or after the last record of a run that failed or was ended"
    )
    def made_elsewhere_or_cut_off(self):
        shown = [c for c in self.claims if c.get("claim") in ("artifact", "outcome")]
        need(shown, "nothing that the runs show differs")
        runs = shown[0]["runs"]
        ends = [self.runs[n - 1] for n in runs]
        need(
            not all(
                r.json.get("outcome") == "exited"
                and not r.json.get("exit_code")
                and all(self.ended_orderly(r, t) for t in r.traces())
                for r in ends
            ),
            "both runs ended well",
        )
        for c, x, y in self.compared(runs):
            self.same_range(c)
            need(not self.differs_before_the_cut(c, x, y), "records differ")

    @staticmethod
    def ended_orderly(run, name):
        return bool(run.steps(name).info.closed)

    def differs_before_the_cut(self, c, x, y):
        """Does something differ in the step behind what was compared, other than that one trace
        goes on where the other was cut off?
        """
        step, other, rules = self.end_of(c), self.end_of(c) + c["shift"], Rules(c)
        if rules.words & {"threads-cut", "steps-of-threads"}:
            return False  # no matter in which step: same_range() has looked at each thread's
        rows = x.rows.get(step, ()), y.rows.get(other, ())
        found = [d for d in differences(*rows) if not rules.allows(d, x, y, step, other)]
        if any(d.a and d.b for d in found):
            return True
        for side, own in enumerate(rows):
            alone = {id(d.b if side else d.a) for d in found}
            matched = [i for i, r in enumerate(own) if id(r) not in alone]
            if any(id(r) in alone for r in own[: matched[-1] if matched else 0]):
                return True
        return False

    @form(
        r"no initial weights were recorded, so where run (\d+) goes on from run (\d+) was not looked for; .*"
    )
    def no_initial_weights(self, k, j):
        need(j == "1", "each run is held against the first")
        traces = [self.run_named(k).steps(name) for name in self.run_named(k).traces()]
        bare = [
            s
            for s in traces
            if not any(r.key[:2] == (INIT, WEIGHT) for rows in s.rows.values() for r in rows)
        ]
        need(bare, "run %s has initial weights", k)

    @form(r"run (\d+) goes on where run (\d+) was after step (\d+): found by its weights")
    def goes_on(self, k, j, step):
        found = False
        for c, x, y in self.compared([int(j), int(k)]):
            if c["shift"] != -(int(step) + 1):
                continue
            left = {
                r.key[2]: r.content
                for r in x.rows.get(int(step), ())
                if r.key[:2] == (OPTIMIZER, WEIGHT)
            }
            begun = {r.key[2]: r.content for r in y.rows.get(0, ()) if r.key[:2] == (INIT, WEIGHT)}
            found |= bool(begun) and any(
                left.get(name) == content for name, content in begun.items()
            )
        need(found, "its weights are not those after step %s", step)

    def states_of(self, name):
        """(difference, first run's trace, its step, the other's, its step, rules) of this generator,
        wherever two runs that were compared differ in it.
        """
        for i, k in self.pairs_wanted():
            for c in self.ranges({"runs": [i, k]}):
                x, y = self.pair(c)
                rules, shift = Rules(c), c["shift"]
                for step in sorted(x.rows):
                    for d in differences(x.rows[step], y.rows.get(step + shift, ())):
                        own = d.a and d.b and d.type == "value" and d.a.key[1] == STATE
                        if own and printable(d.a.key[2]) == name:
                            yield d, x, step, y, step + shift, rules

    @form(r"generator (.+) differs too, but nothing was seen to draw from it: not counted")
    def idle_generator(self, name):
        for d, x, step, y, other, _rules in self.states_of(name):
            if not moves(x, step, d.a.key[2]) and not moves(y, other, d.a.key[2]):
                return
        raise Refuted("it differs in no step in which nobody drew from it")

    @form(
        r"generator (.+) differs at the start, too: whether something drew from it before that is "
        r"not known, and nothing was seen to since: not counted"
    )
    def idle_from_the_start(self, name):
        for d, x, step, y, other, _rules in self.states_of(name):
            unmoved = not moves(x, step, d.a.key[2]) and not moves(y, other, d.a.key[2])
            if unmoved and d.a.key[0] == INIT:
                return
        raise Refuted("it does not differ at the start of a step in which nobody drew from it")

    @form(
        r"generator (.+) differs at the start, and agrees after user code moved it, as all else of "
        r"that step does: not counted"
    )
    def generator_set_again(self, name):
        for d, x, step, y, other, rules in self.states_of(name):
            if set_again(d, x, y, step, other, rules):
                return
        raise Refuted("it does not differ so in any step")

    @form(
        r"torchrun started the ranks again: each of attempts 0 to (\d+) was compared with the same "
        r"attempt of the other run"
    )
    def attempts(self, last):
        found = [attempts_of(run) for run in self.runs]
        pairs = {min(found[0], n) for n in found[1:]}
        need(int(last) in pairs, "they have attempts 0 to %d", max(pairs, default=0))

    # ---- where runs part

    @form(r"local gradients of step (\d+) were equal on every rank: they diverged in the reduction")
    def in_the_reduction(self, step):
        step, seen = int(step), False
        for c, x, y in self.compared():
            rows = x.rows.get(step, ())
            seen |= any(r.key[1] == LOCAL for r in rows)
            for d in differences(rows, y.rows.get(step + c["shift"], ())):
                need((d.a or d.b).key[1] != LOCAL, "a local gradient of rank %d differs", c["rank"])
        first = self.first_claim()
        need(seen and first["step"][0] == step, "no local gradients of step %d", step)

    @form(
        r"local gradients were not recorded, so whether they or the reduction diverged is not known"
    )
    def no_local_gradients(self):
        step = self.first_claim()["step"][0]
        rows = [r for _, x, _ in self.differ_at_end() for r in x.rows.get(step, ())]
        need(not any(r.key[1] == LOCAL for r in rows), "step %d has local gradients", step)

    @form(r"diverging in the same step: ranks? ([-0-9, ]+)(, \.\.\.)?")
    def other_ranks(self, listed, more):
        first, said = self.first_claim(), {int(r) for r in listed.split(",")}
        ends = {c["rank"]: self.end_of(c) for c, _, _ in self.differ_at_end()}
        step, others = first["step"][0], {first["rank"]}
        if "zoom" in first:
            # The note is of the runs: a zoom may have put another step first, and another rank.
            step = min(ends.values(), default=None)
            others = {r for r in ends if ends[r] == step and r not in said}
        ranks = {r for r in ends if ends[r] == step} - others
        good = said <= ranks if more else said == ranks and len(others) == 1
        need(good, "ranks %s diverge there", sorted(ranks | others))

    @form(r"records came in another order from step (\d+) on \(rank (-?\d+), .*\)")
    def another_order(self, step, rank):
        for c, x, y in self.compared():
            if c["rank"] != int(rank):
                continue
            mine, theirs = (
                [(r.key, r.content) for r in s.rows.get(at, ()) if not r.flags & UNORDERED]
                for s, at in ((x, int(step)), (y, int(step) + c["shift"]))
            )
            both = set(mine) & set(theirs)
            if [r for r in mine if r in both] != [r for r in theirs if r in both]:
                return
        raise Refuted("the records of step %s come in one order" % step)

    @form(
        r"in the runs themselves, which recorded no operations, the first that differs is ([^/]+)/(.+) of step (\d+)"
    )
    def was_first(self, phase, what, step):
        """what: a kind and a name; both may have spaces ("gradient (local) table")."""
        step, phase = int(step), PHASES.index(phase)
        for c, x, y in self.compared():
            for d in differences(x.rows.get(step, ()), y.rows.get(step + c["shift"], ())):
                key = (d.a or d.b).key
                object_text = "%s %s" % (KINDS[key[1]], printable(key[2]))
                if key[0] == phase and object_text[: len(what)] == what:
                    need(self.end_of(c) >= step, "they differ before step %d", step)
                    return
        raise Refuted("no such record differs in step %d" % step)

    @form(r"zoom: the reruns diverged at step (\d+) \(the runs at step (\d+)\)")
    def reruns_parted(self, zoomed, step):
        need(self.first_claim()["step"][0] == int(zoomed), "the zoom shows another step")
        ends = [self.end_of(c) for c, _, _ in self.differ_at_end()]
        need(int(step) in ends, "the runs diverge at %s", ends)

    # ---- what agents noted

    @form(
        r"(torch|random|numpy\.random) was drawn from before any seed was set \((.*)\): .* would hold that still"
    )
    def unseeded(self, what, by):
        key = {
            "torch": b"unseeded",
            "random": b"unseeded.python.random",
            "numpy.random": b"unseeded.numpy",
        }[what]
        noted = [
            v
            for run in self.runs
            for s in map(run.steps, run.traces())
            for k, v in s.trace.notes
            if k == key
        ]
        need(
            by in [printable(v.decode("utf-8", "surrogateescape")) for v in noted],
            "no process noted that",
        )

    @form(r"the weights lie in memory that (\d+) processes share and train at once: .*")
    def shared_weights(self, n):
        most = 0
        for run in self.runs:
            every = [s for s in map(run.steps, run.traces()) if s.info.steps]
            most = max(
                most, sum(any(k == b"weights.shared" for k, _ in s.trace.notes) for s in every)
            )
        need(2 <= int(n) <= most, "%d processes share weights", most)

    @form(
        r"threads of PyTorch(?: of ranks? ([-0-9, ]+?)(?: and (\d+) more)?)?: (\d+)(?:, later (\d+))? in run "
        r"(\d+), (\d+)(?:, later (\d+))? in run (\d+)(; whether what differs comes from that, a comparison "
        r"cannot tell)?"
    )
    def thread_counts(self, listed, more, first, later, j, other, other_later, k, differs):
        need(not differs or self.verdict.get("outcome") != "same", "nothing differs")
        said = (int(first), int(later or first)), (int(other), int(other_later or other))
        found = [r for r, numbers in self.other_threads(int(j), int(k)) if numbers == said]
        ranks = [int(r) for r in listed.split(",")] if listed else found
        need(ranks == [r for r in found if r in ranks], "ranks %s had these numbers", found)
        need(found and len(ranks) + int(more or 0) == len(found), "ranks %s had them", found)
        alone = max((x.info.world for _, x, _ in self.compared([int(j), int(k)])), default=1) <= 1
        need(alone or listed, "which of the ranks is not said")

    @form(r"threads of PyTorch: other numbers in run (\d+) and run (\d+) on (\d+) more ranks?")
    def threads_of_more(self, j, k, n):
        groups = {}
        for rank, numbers in self.other_threads(int(j), int(k)):
            groups.setdefault(numbers, []).append(rank)
        rest = list(groups.values())[8:]
        need(int(n) == sum(map(len, rest)) > 0, "%d ranks have more numbers", sum(map(len, rest)))

    def other_threads(self, j, k):
        """[(rank, ((first, last) of run j, of run k))] of what was compared, where both told."""
        out = []
        for c, _, _ in self.compared([j, k]):
            mine, theirs = (self.run_named(n).threads(c["traces"][i]) for i, n in enumerate((j, k)))
            numbers = None if c.get("auxiliary") else unlike_threads(mine, theirs)
            if numbers:
                out.append((c["rank"], numbers))
        return out

    # ---- what was set in

    @form(
        r"(.+), run again (\d+) times on its recorded inputs, gave (?:another result (\d+) times: it is not deterministic|the same result each time)"
    )
    def run_again(self, op, replays, disagree):
        said = [
            (c.get("op"), c.get("replays"), c.get("disagree"))
            for c in self.claims
            if c.get("claim") == "transplant" and c.get("of") == "replay"
        ]
        need((op, int(replays), int(disagree or 0)) in said, "the replays gave %s", said)

    @form(
        r"(.+), run again (\d+) times on its recorded inputs, gave the same result each time, and (\d+) different ones when it was held on one core: it is not deterministic"
    )
    def differs_on_a_core(self, op, replays, results):
        self.run_again(op, replays, 0)
        most = [max(int(vote[5]), int(vote[6])) for vote in self.votes(op) if len(vote) == 7]
        need(int(results) == max(most, default=0) > 1, "on one core it gave %s", most)

    def votes(self, op):
        """What the reruns whose replays are claimed noted of the operation on two cores, in words
        (docs/internals/transplant.md).
        """
        reruns = [
            self.beside(self.runs[0], name)
            for claim in self.claims
            if claim.get("of") == "replay" and claim.get("op") == op
            for name in claim["zoom"]
        ]
        for run in reruns:
            for key, value in [n for s in map(run.steps, run.traces()) for n in s.trace.notes]:
                words = value.decode("utf-8", "surrogateescape").split(" ")
                if key == b"zoom.vote" and printable(words[0]) == op and words[1] == "operation":
                    yield words

    @form(r"that acquits (.+) itself as far as (\d+) replays can: what remains .*")
    def acquitted(self, op, replays):
        self.run_again(op, replays, 0)

    @form(
        r"(\d+) of (\d+) steps (could not be transplanted and are not judged|started with weights .*)"
    )
    def steps_left_out(self, n, of, why):
        said = self.verdict["transplant"]
        key = "left_out" if why.startswith("could") else "unequal"
        need((int(n), int(of)) == (said[key], said["steps"]), "%d of %d", said[key], said["steps"])

    @form(r"the two natural runs agreed; it was the transplanted ones that diverged")
    def natural_runs_agree(self):
        need(not self.differ_at_end([1, 2]), "they do not")

    # ---- a tolerance

    def judgements(self):
        return [c for c in self.claims if c.get("claim") == "tolerance"]

    @form(
        r"within tolerance: the largest uses (\S+) of what is allowed \((.*)\); (\d+) differences? measured"
    )
    def largest(self, share, where, measured):
        rules = [c for c in self.claims if c.get("claim") == "rule" and c.get("worst") is not None]
        n = sum(c["measured"] for c in self.judgements())
        need(int(measured) == n, "%d differences were measured", n)
        worst = max(rules, key=lambda c: c["worst"])
        need("%.2g" % worst["worst"] == share, "the largest uses %.2g", worst["worst"])
        need(
            where in [c["where"] for c in rules if c["worst"] == worst["worst"]],
            "that is %s",
            worst["where"],
        )

    @form(
        r"outside the tolerance: (.*/.*) at step (\d+): (?:relative L2 (\S+), allowed (.*)|missing .*|no rule covers it)"
    )
    def outside(self, name, step, relative, allowed):
        rules = self.rules()
        for c in self.judgements():
            for row in self.steps_judged(c).get(int(step), _NO_STEP).rows:
                beyond = row.missing or (row.share is not None and row.share > 1)
                if beyond and row.where == "%s at step %s" % (name, step):
                    unknown = relative in ("nan", "-nan") or math.isinf(row.share or 0)
                    need(
                        relative is None or unknown or "%.3g" % row.relative == relative,
                        "it is %.3g",
                        row.relative or 0,
                    )
                    limits = allowed and [
                        (k, rules[row.rule][k]) for k in LIMITS if rules[row.rule][k]
                    ]
                    text = allowed and ", ".join("%s %.3g" % limit for limit in limits)
                    need(not allowed or allowed.split(" (")[0] == text, "allowed is %s", text)
                    return
        raise Refuted("that is not outside")

    @form(r"not judged by the tolerance: run (\d+) failed \((.*)\)")
    def a_run_failed(self, k, how):
        run = self.run_named(k)
        need(
            run.failed() and how.startswith(how_it_ended(run)),
            "it ended with %s",
            how_it_ended(run),
        )

    @form(
        r"not judged by the tolerance: (.* at step \d+) has no sketch, or holds NaN or Inf \((\d+) of (\d+) differences\); .*"
    )
    def not_measured(self, where, open_, of):
        n = sum(c["unmeasured"] for c in self.judgements())
        total = n + sum(c["measured"] for c in self.judgements())
        need((int(open_), int(of)) == (n, total), "%d of %d were not measured", n, total)
        steps = [s for c in self.judgements() for s in self.steps_judged(c).values()]
        need(
            any(r.share is None and r.where == where for s in steps for r in s.rows),
            "that was measured",
        )


class _NO_STEP:
    rows = ()
