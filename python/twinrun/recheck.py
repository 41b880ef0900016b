# SPDX-License-Identifier: Apache-2.0
"""Rechecks a verdict: holds every claim of it against the recordings.

    python -m twinrun.recheck [--json] VERDICT [RUN...]

VERDICT is `verdict.json` of a run folder, or what `twinrun check --json` or `twinrun diff --json`
printed. RUN are the run folders in the verdict's order (by default those that it names). Prints a
line for each claim and exits 0 when all hold, 1 when one is refuted, 2 on trouble. Written from
docs/format/verdict.md and docs/format/trace.md: it shares no code with the comparison that it
rechecks.

The claims come from a stranger. Nothing of them is executed, sizes are capped, and no path leads
out of a run folder.
"""

import fnmatch
import json
import os
import re
import sys
from collections import Counter

from . import _causes, _lines
from ._between import weights_in
from ._choices import Choices
from ._kernels import Kernels
from ._claims import Claims
from ._clock import Clock, without
from ._exchanges import Exchanges
from ._explained import Explained
from ._nodes import Nodes
from ._notes import Notes
from ._pins import Pins
from ._rates import Rates
from ._recorded import Refuted, Rules, Run, Trouble, need, number, printable, word
from ._replicas import Replicas
from ._shown import attempt_of, attempts_of
from ._tolerance import Tolerances
from ._transplanted import Transplanted
from .trace import TraceError

VERDICT_MAX = 64 << 20  # bytes of a verdict
CLAIMS_MAX = 100000


def most_steps(ranges):
    """Most steps of one trace of run 1 that the ranges cover: several where an arm trains in
    several processes. The seam of a resumed arm is a step of its own, before the first whole one.
    """
    covered = {}
    for c in ranges:
        shift, first = c.get("shift"), number(c, "first")
        resumed = isinstance(shift, int) and shift < 0 and "insertions" in Rules(c).words
        spans = covered.setdefault(str(c.get("traces")).split(",")[0], [])
        spans.append((first - (1 if resumed and first > 0 else 0), first + number(c, "steps")))
    most = 0
    for spans in covered.values():
        total = reached = 0
        for first, end in sorted(spans):
            total += max(end - max(first, reached), 0)
            reached = max(reached, end)
        most = max(most, total)
    return most


class Recheck(
    Choices,
    Kernels,
    Claims,
    Clock,
    Exchanges,
    Explained,
    Nodes,
    Notes,
    Pins,
    Rates,
    Replicas,
    Tolerances,
    Transplanted,
):
    """All claims of one verdict against its runs."""

    # ---- the verdict's own word

    def headline(self, claim):
        outcome = word(claim, "outcome")
        against = self.verdict.get("against") is not None
        need(
            outcome == self.verdict.get("outcome"),
            "the verdict says %s",
            self.verdict.get("outcome"),
        )
        need(
            claim.get("against") is against,
            "the verdict is%s of a baseline",
            "" if against else " not",
        )
        self.figures(claim, against)
        self.every_sentence()
        if against:
            return outcome  # the baseline is a file: what the run has of it are other claims
        need(number(claim, "runs") == len(self.runs), "the verdict is of %d runs", len(self.runs))
        others = [c.get("claim") for c in self.claims]
        if outcome == "same":
            self.same(claim)
        elif outcome in ("differ", "within-tolerance"):
            need(any(c.get("first") is True for c in self.claims), "no claim says what differs")
            if outcome == "within-tolerance":
                self.within(claim)
        elif outcome == "inconclusive":
            need("unseen" in others, "no claim says what is missing")
        elif outcome == "error":
            need(all(r.failed() for r in self.runs), "not every run failed")
        else:
            raise Refuted("nobody knows the outcome %s" % outcome)
        if outcome in ("same", "differ"):
            need(claim["bitwise"] == outcome, "bit for bit it is %s", outcome)
        if outcome == "within-tolerance":
            need(claim["bitwise"] == "differ", "bit for bit they differ")
        return outcome

    def figures(self, claim, against):
        """The numbers beside the outcome: the verdict's own, and what the claims add up to."""
        v = self.verdict
        said = {
            "bitwise": v.get("bitwise"),
            "runs": v.get("runs"),
            "comparisons": v.get("comparisons"),
            "differing": v.get("differing"),
            "steps": v.get("steps", {}).get("compared"),
            "records": v.get("records", {}).get("compared"),
        }
        for key, value in said.items():
            need(claim.get(key) == value, "the verdict says %s: %s", key, value)
        if against:
            return
        need(
            number(claim, "comparisons") == len(self.runs) - 1,
            "each run is compared with the first",
        )
        classes = [c["runs"] for c in self.claims if c.get("claim") == "class"]
        if classes:
            n = len(self.runs) - max(map(len, classes))
            need(number(claim, "differing") == n, "%d runs leave the largest class", n)
        if claim["outcome"] == "differ" and not self.arms():
            self.steps_of_both(claim)

    def steps_of_both(self, claim):
        """Where runs differ, all steps that both made were compared, unless fewer were
        asked for.
        """
        first = [c for c in self.claims if c.get("first") is True]
        ranges = [c for c in self.ranges(first[0]) if not c.get("auxiliary")] if first else []
        limited = any(r.json.get("max_steps") or r.stopped() for r in self.runs)
        threads = any("steps-of-threads" in Rules(c).words for c in ranges)
        if ranges and not limited and not threads:
            most = max(min(number(c, "of", 0), number(c, "of", 1)) for c in ranges)
            need(number(claim, "steps") <= most, "no process made that many steps in both runs")

    def every_sentence(self):
        """A sentence without a claim behind it is not printed."""
        v, claims = self.verdict, self.claims
        firsts = [c for c in claims if c.get("first") is True]
        need(len(firsts) == (1 if v.get("first") else 0), "%d claims are the first", len(firsts))
        if firsts:
            self.is_named_first(firsts[0], v["first"])
        self.equal_before_said()
        for onset in v.get("then", []):
            need(
                any(
                    c.get("claim") == "then" and all(c.get(k) == w for k, w in onset.items())
                    for c in claims
                ),
                "no claim says that %s differ from step %s on",
                onset.get("what"),
                onset.get("step"),
            )
        kinds = [c.get("claim") for c in claims]
        under = v.get("pinned") is not None
        need(kinds.count("pinned") == under, "%d claims are of its pins", kinds.count("pinned"))
        need(kinds.count("rule") == len(v.get("tolerance") or []), "not each rule has a claim")
        for key, kind in (("drift_per_step", "drift"), ("nonfinite", "nan")):
            has = v.get(key) is not None
            need(kinds.count(kind) == has, "%d claims are behind %s", kinds.count(kind), key)
        if v.get("transplant"):
            self.sums_of_transplants()
        self.order_of_ranks()
        if v.get("rounding") is not None:
            head = "rounding or bug, first step: "
            said = [n for n in v.get("notes", []) if str(n).startswith(head)]
            need(len(said) == 1, "%d notes are behind the field rounding", len(said))
        of_runs = v.get("comparisons") and v.get("against") is None
        need(
            kinds.count("rate") == bool(of_runs),
            "%d claims are behind the rate",
            kinds.count("rate"),
        )
        for key in ("unseen", "gaps", "notes"):
            kind = {"gaps": "lost", "notes": "note"}.get(key, key)
            need(kinds.count(kind) == len(v.get(key, [])), "not each of %s has a claim", key)

    def is_named_first(self, claim, first):
        detail = first.get("detail", {})
        need(claim.get("text") == detail.get("text"), "the verdict says it otherwise")
        need(claim.get("type") == detail.get("type"), "the verdict says another type")
        if "step" not in claim:
            return
        need(
            claim["step"] == [first.get("step"), detail.get("step_b")],
            "the verdict says other steps",
        )
        need(claim.get("rank") == first.get("rank"), "the verdict says another rank")
        need(claim.get("role") == first.get("role"), "the verdict says another role")

    def same(self, claim):
        """What must hold for "same", whatever the claims say: docs/verdict.md."""
        need(
            not any(
                c.get("claim") in ("unseen", "artifact", "outcome", "origin", "carrier", "first")
                for c in self.claims
            ),
            "another claim contradicts it",
        )
        need(len(self.runs) > 1, "one run alone is never the same as another")
        for c in self.claims:
            if c.get("claim") == "clock":
                self.clock(c)
        most = 0
        for a, i, ranges, arms in self.every_pair():
            most = max(most, most_steps(ranges))
            if not arms:
                self.same_ends(self.runs[a - 1], self.runs[i - 1], i)
        need(number(claim, "steps") == most, "%d steps are equal", most)

    def pairs_wanted(self):
        """Each run but the first with the first, and with the first of its own number of ranks."""
        ranks = self.verdict.get("ranks")
        need(ranks is None or len(ranks) == len(self.runs), "not each run has a number of ranks")
        for i in range(2, len(self.runs) + 1):
            yield 1, i
            own = ranks.index(ranks[i - 1]) + 1 if ranks else 1
            if own not in (1, i):
                yield own, i

    def every_pair(self):
        """Runs that had to be compared, with what was: all, and nothing unknown."""
        ranks = self.verdict.get("ranks")
        for a, i in self.pairs_wanted():
            ranges = [
                c for c in self.claims if c.get("claim") == "same-range" and c.get("runs") == [a, i]
            ]
            arms = any("insertions" in Rules(c).words for c in ranges)
            alike = ranks is not None and ranks[a - 1] == ranks[i - 1]
            need(not (alike and arms), "runs %d and %d are of one command", a, i)
            unknown = {"unread", "dropped", "order-of-threads"}
            need(not any(unknown & Rules(c).words for c in ranges), "some records are unknown")
            need(ranges, "runs %d and %d were compared in nothing", a, i)
            self.every_trace(a, i, ranges, arms)
            yield a, i, ranges, arms

    def every_trace(self, a, i, ranges, arms):
        pair = self.runs[a - 1], self.runs[i - 1]
        for side, run in enumerate(pair):
            for name in run.traces():
                s, number_of_run = run.steps(name), (a, i)[side]
                mine = [c for c in ranges if c["traces"][side] == name]
                if s.info.records == 0 and s.info.steps == 0:
                    continue
                idle = s.info.role.startswith(b"loader worker") or (arms and side == 0)
                partial = any("only-weights" in Rules(c).words for c in ranges)
                need(mine or idle or partial, "%s of run %d was not compared", name, number_of_run)
                need(not s.faults, "%s of run %d is damaged: %s", name, number_of_run, s.faults[:1])
                need(s.info.lost == 0, "%s of run %d lost calls", name, number_of_run)
                for c in mine:
                    self.every_record_was_read(c, s, side)
        for c in ranges:
            self.whole(c, pair, arms)
            self.weights_in_each_step(c)

    def weights_in_each_step(self, c):
        """Between other numbers of ranks gradients and optimizer state do not stand for weights."""
        if "only-weights" not in Rules(c).words:
            return
        x, y = self.pair(c)
        for step in self.steps_looked_at(c, x, y):
            known = x.complete(step) and y.complete(step + c["shift"])
            held = weights_in(x, y, step, step + c["shift"], Rules(c))
            need(held or not known, "step %d: no weights were compared", step)

    def every_record_was_read(self, c, steps, side):
        """A record that could not be read in either run is equal in both, and says nothing."""
        first, n, judged = number(c, "first"), number(c, "steps"), self.judgement(c)
        end = first + n + (c.get("tail") is True) if judged is None else number(judged, "last") + 1
        shift = number(c, "shift", least=-(1 << 32)) if side else 0
        for step in range(first + shift, end + shift):
            unread = [r for r in steps.rows.get(step, ()) if r.unread]
            need(not unread, "step %d: %d records could not be read", step, len(unread))

    def whole(self, c, pair, arms):
        """All steps that were asked for: of arms those from where the second begins."""
        if "steps-of-threads" in Rules(c).words:
            return
        first, steps = number(c, "first"), number(c, "steps")
        a, b = number(c, "of", 0), number(c, "of", 1)
        limited = any(run.json.get("max_steps") or run.stopped() for run in pair)
        limited |= self.works_ahead(c, pair)
        tail, judged = c.get("tail"), self.judgement(c)
        # all that differs lies in steps that were judged, up to the last one
        if judged is not None:
            steps, tail = min(a, b), judged["last"] == a
        some = steps > 0 or c.get("auxiliary") or tail
        if arms:
            need(some, "the arms were compared in no step")
            return
        need(first == 0, "steps 0 to %d were not compared", first - 1)
        attempts = [attempt_of(run.steps(name)) for run, name in zip(pair, c["traces"])]
        need(attempts[0] == attempts[1], "attempt %d was compared with attempt %d", *attempts)
        need(steps == a == b or limited, "%d of %d and %d steps were compared", steps, a, b)
        need(some or a + b == 0, "no step was compared")
        need(
            tail is True or limited or c.get("auxiliary") or self.given_up(c, pair),
            "what came after the last step was not compared",
        )

    @staticmethod
    def works_ahead(c, pair):
        """Is it a worker of a loader? How far it got ahead is a matter of time."""
        roles = [run.steps(name).info.role for run, name in zip(pair, c["traces"])]
        return all(role.startswith(b"loader worker") for role in roles)

    @staticmethod
    def given_up(c, pair):
        """Did the launcher start the ranks again after both? Where it ended them is a matter of
        time, and a later attempt is compared from its beginning.
        """
        return all(
            attempt_of(run.steps(name)) < attempts_of(run) for run, name in zip(pair, c["traces"])
        )

    def same_ends(self, a, b, i, left_open=()):
        """left_open: streams whose other words the verdict names as not judged."""
        need(not a.failed() and not b.failed(), "a run failed")
        one = a.json.get("one_stream"), b.json.get("one_stream")
        streams = ("stdout", "stderr") if one[0] == one[1] else ("stdout and stderr",)
        for stream in streams:
            equal = a.json.get(stream, {}).get("sha256", 0) == b.json.get(stream, {}).get(
                "sha256", 1
            )
            if equal or stream in left_open:
                continue
            self.same_lines(stream, a, b, i)

    def same_lines(self, stream, a, b, i):
        """Every line has its counterpart, but those that the user leaves out and those that ran
        together with others, which have the same letters in both runs."""
        patterns = {p for c in self.claims for p in Rules(c).ignore}
        if any(
            fnmatch.fnmatchcase(name, p)
            for p in patterns
            for name in (stream, "output/line/" + stream)
        ):
            return
        filters = [re.compile(p[5:]) for p in patterns if p.startswith("line:")]

        def lines(run):
            texts = run.stream(stream)
            return [
                t for t in texts if not any(f.search(t.decode("utf-8", "replace")) for f in filters)
            ]

        x, y = lines(a), lines(b)
        left = _lines.unexplained(
            x,
            y,
            _lines.facts(a.json, a.folder),
            _lines.facts(b.json, b.folder),
            lambda text: without(text, stream, self.times),
        )
        for d in left:
            need(
                not d.numbers,
                "%s: line %r of run %d has no counterpart, and its numbers are no known noise",
                stream,
                d.text[:80],
                i,
            )
        text = left[0].text[:80] if left else b""
        cut = a.stopped() or b.stopped()  # what one run printed behind the end of the other
        alike = not left or cut or self.ran_together(x, y, a, b)
        need(alike, "%s: the text of line %r has no counterpart in run %d", stream, text, i)

    @staticmethod
    def ran_together(a, b, run_a, run_b):
        """Have both runs the same letters, whatever their lines?"""
        several = all(len(r.json.get("processes") or []) > 1 for r in (run_a, run_b))
        letters = []
        for lines, run in ((a, run_a), (b, run_b)):
            own = _lines.facts(run.json, run.folder)
            text = "".join(_lines.masked(line, own) for line in lines)
            letters.append(Counter(re.sub(r"[\s~]", "", text)))
        return several and letters[0] == letters[1]

    HOW = {
        "verdict": headline,
        "same-range": Claims.same_range,
        "equal": Claims.equal,
        "first": Claims.finding,
        "origin": Claims.finding,
        "carrier": Claims.finding,
        "order-only": Claims.finding,
        "carried": Exchanges.carried,
        "noise": Claims.noise,
        "artifact": Claims.artifact,
        "clock": Clock.clock,
        "outcome": Claims.outcome,
        "lost": Claims.lost,
        "pinned": Pins.pinned,
        "class": Claims.classes,
        "size": Claims.size,
        "then": Claims.then,
        "drift": Claims.drift,
        "nan": Claims.nan,
        "rate": Rates.rate,
        "tolerance": Tolerances.tolerance,
        "rule": Tolerances.rule,
        "transplant": Transplanted.transplant,
    }

    def one(self, claim):
        """(state, what): confirmed, refuted, or stated for what only limits the verdict."""
        if not isinstance(claim, dict) or not isinstance(claim.get("claim"), str):
            return "refuted", "it is no claim"
        kind = claim["claim"]
        streams = ("stdout", "stderr")
        # benign, and about records that one arm has in between
        of_records = claim.get("type") == "output" and claim.get("name") not in streams
        if kind == "unseen":
            return "stated", str(claim.get("text"))[:200]
        if kind == "only-in":
            how = self.without_counterpart if "trace" in claim else self.finding
        elif kind == "order-only" and not any(claim.get("at", [])):
            how = self.threads
        elif kind == "noise" and of_records:
            how = self.inserted
        elif kind == "note":
            how = self.note
        elif kind in self.HOW:
            how = self.HOW[kind].__get__(self)
        else:
            return "refuted", "nobody knows how to recheck this kind of claim"
        state = "stated" if claim.get("against") is True else "confirmed"
        runs, at = claim.get("runs"), claim.get("at")
        if isinstance(runs, list) and runs[:1] == [None]:  # against a baseline, which is a file
            if not isinstance(at, list) or not any(isinstance(e, dict) for e in at):
                return "stated", str(claim.get("text"))[:200]
        try:
            self.is_of_two_runs(runs)
            if kind == "note":
                return self.note(claim)
            return state, how(claim)
        except Refuted as e:
            return "refuted", str(e)
        except (
            KeyError,
            IndexError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            MemoryError,
            RecursionError,
            OSError,
            TraceError,
        ) as e:
            return "refuted", "its evidence is malformed: %s: %s" % (type(e).__name__, e)

    def is_of_two_runs(self, runs):
        """Where a claim is of a pair, both are runs of the verdict; a class may have any number."""
        if isinstance(runs, list):
            known = [n for n in runs if isinstance(n, int) and 1 <= n <= len(self.runs)]
            rest = [n for n in runs if n not in known]
            need(rest in ([], [None]) and len(set(known)) == len(known), "there are no such runs")

    def threads(self, claim):
        need(
            any(
                "steps-of-threads" in Rules(c).words
                for c in self.claims
                if c.get("claim") == "same-range"
            ),
            "no process was compared thread by thread",
        )
        return claim.get("text", "")


def load(path):
    if os.path.getsize(path) > VERDICT_MAX:
        raise Trouble("%s has more than %d bytes" % (path, VERDICT_MAX))
    with open(path, "rb") as f:
        try:
            verdict = json.loads(f.read())
        except (ValueError, RecursionError) as e:
            raise Trouble("%s is no JSON: %s" % (path, e))
    claims = verdict.get("claims") if isinstance(verdict, dict) else None
    if not isinstance(claims, list) or len(claims) > CLAIMS_MAX:
        raise Trouble("%s has no list of at most %d claims" % (path, CLAIMS_MAX))
    return verdict, claims


def recheck_pair(verdict, runs, diverged, arms):
    """One comparison of a search: its claims hold, and nothing else tells the runs apart."""
    claims = verdict.get("claims")
    need(isinstance(claims, list) and len(claims) <= CLAIMS_MAX, "it has no claims")
    r = Recheck(claims, runs, verdict)
    for claim in claims:
        state, why = r.one(claim)
        need(state != "refuted", "%s", why)
    need(any(isinstance(c, dict) and c.get("claim") == "verdict" for c in claims), "no outcome")
    if diverged:
        return
    ranges = [c for c in claims if c.get("claim") == "same-range"]
    for name in runs[0].traces() + runs[1].traces():
        named = any(name in c.get("traces", ()) for c in ranges)
        idle = any(
            s.info.records == 0 for run in runs if name in run.traces() for s in [run.steps(name)]
        )
        need(named or idle or arms, "%s was not compared", name)
    if not arms:
        streams = ("stdout", "stderr", "stdout and stderr")
        open_ones = [
            s
            for s in streams
            if verdict.get("outcome") == "inconclusive" and names_unseen(claims, s)
        ]
        r.same_ends(runs[0], runs[1], 2, open_ones)
        admitted_texts(claims, runs, r.times)


def names_unseen(claims, stream):
    """Does a claim say that lines of this stream were not judged?"""
    return any(
        c.get("claim") == "unseen" and str(c.get("text")).startswith(stream + ": ") for c in claims
    )


def admitted_texts(claims, runs, times):
    """Lines that differ in words, which may mean nothing, are not left unsaid. times: numbers that
    were shown to be some.
    """
    for stream in ("stdout", "stderr"):
        lines = [run.stream(stream) for run in runs]
        facts = [_lines.facts(run.json, run.folder) for run in runs]
        said = names_unseen(claims, stream)

        def more(text, stream=stream):
            return without(text, stream, times)

        left = [] if said else _lines.unexplained(*lines, *facts, more)
        need(not left, "%s: line %r has no counterpart", stream, left[0].text[:80] if left else b"")


def recheck(verdict_path, folders=()):
    """[(state, kind, text)] of all claims of a verdict."""
    verdict, claims = load(verdict_path)
    folders = list(folders) or [d for d in verdict.get("runs_dir", []) if isinstance(d, str)]
    if _causes.is_search(verdict):
        return _causes.recheck_search(verdict, claims, folders, recheck_pair)
    runs = [Run(f) for f in folders]
    if not runs:
        raise Trouble("no run folders: name them behind the verdict")
    r = Recheck(claims, runs, verdict)
    out = [
        (state, claim.get("claim") if isinstance(claim, dict) else "?", text)
        for claim in claims
        for state, text in [r.one(claim)]
    ]
    if not any(isinstance(c, dict) and c.get("claim") == "verdict" for c in claims):
        out.append(("refuted", "verdict", "no claim says what the outcome is"))
    return out


def main(argv):
    args = [a for a in argv[1:] if a != "--json"]
    if not args or args[0] in ("-h", "--help"):
        sys.stderr.write("usage: python -m twinrun.recheck [--json] VERDICT [RUN...]\n")
        return 2
    try:
        results = recheck(args[0], args[1:])
    except (Trouble, OSError) as e:
        sys.stderr.write("recheck: %s\n" % printable(str(e), again=True))
        return 2
    n = Counter(state for state, _, _ in results)
    if "--json" in argv:
        print(
            json.dumps(
                {
                    "schema": "twinrun.recheck/1",
                    "confirmed": n["confirmed"],
                    "refuted": n["refuted"],
                    "stated": n["stated"],
                    "claims": [{"state": s, "claim": str(k), "text": t} for s, k, t in results],
                }
            )
        )
    else:
        for state, kind, text in results:
            word_of = state.upper() if state == "refuted" else state
            shown = printable(str(text), again=True)
            print("%-10s %-11s %s" % (word_of, printable(str(kind)), shown))
        print("%d confirmed, %d refuted, %d stated" % (n["confirmed"], n["refuted"], n["stated"]))
    return 1 if n["refuted"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
