# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds "within tolerance" against the recordings.

Every difference of every step that a claim names is measured again, from the numbers that the
traces keep, and held against the rules that the verdict names. What the claims and the tolerance
file mean: docs/format/verdict.md and docs/ci.md.
"""

import fnmatch
import math
from collections import Counter, namedtuple

from ._numbers import F32, F64, bits_of, close, elements, single, ulps
from ._recorded import (
    PART_OF,
    Rules,
    differences,
    items,
    need,
    number,
    part_elsewhere,
    printable,
    word,
)
from .trace import KINDS, PHASES

LIMITS = ("rel_l2", "abs", "rtol", "atol", "ulp")
LISTED = 64  # steps of which a claim lists the numbers

# rule: its index, None where none covers the record; share: of what it allows, None: not measured
Judged = namedtuple("Judged", "step rule missing share where relative")


def apart(a, b):
    """(distance, norm of the first) of two records of one layout; None where the distance is
    unknown.
    """
    x, y = single(a), single(b)
    if x is not None and y is not None:
        far = abs(x - y)
        relative = 0.0 if far == 0 else math.nan if math.isnan(far) or math.isinf(x) else far
        return None if math.isnan(relative) else (far, abs(x))
    if not a.sketch or not b.sketch or a.skipped or b.skipped or len(a.sketch) != len(b.sketch):
        return None
    far = math.sqrt(sum((p - q) ** 2 for p, q in zip(a.sketch, b.sketch)))
    square = a.stats.sumsq if a.stats else sum(p * p for p in a.sketch)
    return far, math.sqrt(square)


def beyond_by_norms(rule, a, b):
    """Do the statistics alone prove that two records are further apart than the rule allows?"""
    s, t = a.stats, b.stats
    if not s or not t:
        return False
    if (s.nan, s.pos_inf, s.neg_inf) != (t.nan, t.pos_inf, t.neg_inf):
        return True
    norm = math.sqrt(s.sumsq)
    least = abs(norm - math.sqrt(t.sumsq))
    most = (
        rule["abs"],
        rule["rel_l2"] * norm,
        rule["atol"] * math.sqrt(elements(b)) + rule["rtol"] * norm,
    )
    return all(least > m * (1 + 1e-12) for m in most)


def share_of(rule, a, b):
    """How much of what a rule allows two records use, at most 1 inside; None where it
    is not known.
    """
    measured = apart(a, b)
    if measured is None:
        return math.inf if beyond_by_norms(rule, a, b) else None
    far, norm = measured
    allowed = [
        (far, rule["rel_l2"] * norm),
        (far, rule["abs"]),
        (far, rule["atol"] * math.sqrt(elements(b)) + rule["rtol"] * norm),
    ]
    x, y = single(a), single(b)
    dtype = b.content[0][0] if b.content[0] else None
    if x is not None and y is not None and dtype in (F32, F64):
        units = ulps(bits_of(x, dtype), bits_of(y, dtype), dtype)
        allowed.append((math.inf if isinstance(units, str) else units, rule["ulp"]))
    shares = [d / m for d, m in allowed if m > 0]
    return min(shares, default=math.inf)


def covers(rule, key):
    """Does a rule's pattern mean this record? It may name the tensor of which it is a part."""
    phase, kind, name = key[:3]
    before = "%s/%s/" % (PHASES[phase], KINDS[kind])
    whole = PART_OF.sub("", name)
    names = (name, whole, before + name, before + whole)
    return any(fnmatch.fnmatchcase(n, rule["pattern"]) for n in names)


class Step:
    """What of one step differs, held against the rules."""

    def __init__(self, x, y, step, other, rules, left_out):
        self.rows, self.unknown, self.exact = [], False, False
        mine, theirs = x.rows.get(step, ()), y.rows.get(other, ())
        ends = x.ends.get(step), y.ends.get(other)
        tail = step == x.info.steps and other == y.info.steps
        self.known = tail or (x.complete(step) and y.complete(other))
        if not self.known:  # the sums alone can say that it is equal
            self.known = (
                all(ends)
                and ends[0].phases == ends[1].phases
                and ends[0].records == ends[1].records
            )
            return
        for d in differences(mine, theirs):
            r = d.a or d.b
            if d.type in ("only-a", "only-b") and part_elsewhere(d, x, y, step, other):
                self.unknown = True
            elif left_out.allows(d, x, y, step, other):
                continue
            elif d.type == "unread":
                self.unknown = True
            else:
                self.rows.append(judged(d, r, step, rules))
        counted = [Counter((r.key, r.thread) for r in side) for side in (mine, theirs)]
        shared = len({r.thread for r in mine}) > 1 or len({r.thread for r in theirs}) > 1
        # which record is the n-th where one is missing, or where threads take turns, two can say
        self.exact = counted[0] == counted[1] and not shared

    def count(self):
        inside = sum(r.share is not None and r.share <= 1 for r in self.rows)
        unmeasured = sum(r.share is None and not r.missing for r in self.rows)
        return inside, unmeasured, len(self.rows) - inside - unmeasured

    def worst(self):
        return max(
            (r.share for r in self.rows if r.share is not None and r.share <= 1), default=None
        )


def judged(d, r, step, rules):
    where = "%s/%s/%s at step %d" % (PHASES[r.key[0]], KINDS[r.key[1]], printable(r.key[2]), step)
    rule = next((i for i, rule in enumerate(rules) if covers(rule, r.key)), None)
    missing = rule is None or d.type != "value" or d.a.content[:2] != d.b.content[:2]
    share = None if missing else share_of(rules[rule], d.a, d.b)
    far = None if missing else apart(d.a, d.b)
    relative = None if far is None else far[0] / far[1] if far[1] else math.inf
    return Judged(step, rule, missing, share, where, relative)


class Tolerances:
    """Claims about a tolerance, beside those of _claims.Claims."""

    def rules(self):
        """The rules of the tolerance file, in its order, as the claims have them."""
        out = []
        for c in (c for c in self.claims if c.get("claim") == "rule"):
            need(number(c, "number", least=1) == len(out) + 1, "the rules are not in order")
            for key in LIMITS:
                value = c.get(key)
                good = isinstance(value, (int, float)) and not isinstance(value, bool)
                need(good and 0 <= value < math.inf, "rule %d has no number %s", c["number"], key)
            word(c, "pattern")
            out.append(c)
        return out

    def steps_judged(self, claim):
        """Every step that the claim says was judged, judged again."""
        known = self.__dict__.setdefault("_judged", {})
        if id(claim) not in known:
            x, y = self.pair(claim)
            shift = number(claim, "shift", least=-(1 << 32))
            patterns = items(claim, "ignore")
            compared = [c for c in self.ranges(claim) if c.get("traces") == claim["traces"]]
            need(compared, "these processes were not compared")
            need(
                patterns == Rules(compared[0]).ignore,
                "other records were left out of what is equal",
            )
            names = ["idle-generators", "set-generators", "order-of-parameters"]
            if "only-weights" in Rules(compared[0]).words:
                words = {"only-weights", "with-gradients", "with-moments"}
                names += sorted(words & Rules(compared[0]).words)
                x, y = self.pair(compared[0])  # wholes in place of parts
            left_out = Rules({"rules": names + [{"ignore": p} for p in patterns]})
            first, last = number(claim, "first"), number(claim, "last")
            need(last <= min(x.info.steps, y.info.steps - shift), "the runs have no step %d", last)
            rules = self.rules()
            known[id(claim)] = {
                s: Step(x, y, s, s + shift, rules, left_out) for s in range(first, last + 1)
            }
        return known[id(claim)]

    def last_of(self, claim):
        """The last step that both have; what came after it, where both end after the same one."""
        x, y = self.pair(claim)
        ends = x.info.steps, y.info.steps - claim["shift"]
        natural = min(ends) - (ends[0] != ends[1])
        asked = number(self.verdict, "steps", "compared")
        limited = any(r.json.get("max_steps") or r.stopped() for r in self.runs)
        if asked < min(ends) or limited:
            return {natural, asked - 1, max(natural, claim["first"])}
        return {natural}

    def tolerance(self, claim):
        """Steps of one process of two runs, each inside or outside, with the numbers."""
        need(self.verdict.get("tolerance"), "the verdict is of no tolerance")
        steps = self.steps_judged(claim)
        first, last = claim["first"], claim["last"]
        self.begins(claim, claim["shift"], first)
        said = {
            key: number(claim, key)
            for key in ("measured", "unmeasured", "outside", "unknown", "differing")
        }
        inside = claim.get("inside")
        need(isinstance(inside, bool), "it does not say whether that is inside")
        rows = [s for s in steps.values() if s.rows]
        over = [s.rows[0].step for s in rows if s.count()[2]]
        short = [at for at, s in steps.items() if not s.known]
        if said["outside"] or (over and not inside):
            need(over and over[0] == last, "the first step outside is %s", over[:1] or "none")
        elif inside or not short:
            need(last in self.last_of(claim), "not every step was judged")
        if inside:
            need(not over, "step %s is outside", over[:1])
            need(not short, "not all of step %s can be judged", short[:1])
            unknown = [at for at, s in steps.items() if s.unknown]
            need(not unknown, "step %s has records that cannot be judged", unknown[:1])
            need(
                said["unmeasured"] == said["unknown"] == said["outside"] == 0,
                "it says what is not inside",
            )
            need(all(s.count()[1] == 0 for s in rows), "a difference was not measured")
        else:
            bad = over or short or said["unknown"] or any(s.count()[1] for s in rows)
            need(bad, "all of it is inside")
        self.numbers(claim, steps, rows, said)
        return "%s, steps %d to %d: %d differences %s" % (
            "inside" if inside else "not inside",
            first,
            last,
            sum(len(s.rows) for s in rows),
            "measured" if inside else "judged",
        )

    @staticmethod
    def numbers(claim, steps, rows, said):
        """The figures of each listed step, and their sums."""
        listed = items(claim, "steps")
        need(len(listed) == min(said["differing"], LISTED), "%d steps are listed", len(listed))
        exact = all(
            s.known and s.exact for s in steps.values() if s.rows or s.unknown or not s.known
        )
        if not exact:
            return
        sums = [sum(c) for c in zip(*(s.count() for s in rows))] or [0, 0, 0]
        need([said["measured"], said["unmeasured"], said["outside"]] == sums, "they are %s", sums)
        need(said["differing"] == len(rows), "%d steps differ", len(rows))
        need(said["unknown"] == sum(s.unknown for s in steps.values()), "so many steps are unknown")
        for given, s in zip(listed, rows):
            need(isinstance(given, list) and len(given) == 5, "a step has five numbers")
            need(
                given[:4] == [s.rows[0].step, *s.count()], "step %d: %s", s.rows[0].step, s.count()
            )
            need(close(given[4], s.worst()), "step %d uses %s", s.rows[0].step, s.worst())

    def rule(self, claim):
        """A rule of the tolerance file and all that it judged."""
        k = number(claim, "number", least=1)
        listed = self.verdict.get("tolerance")
        need(isinstance(listed, list) and k <= len(listed), "the verdict has no rule %d", k)
        for key in ("pattern", "where", "matched", "measured", "unmeasured", "outside"):
            need(
                claim.get(key) == listed[k - 1].get(key),
                "the verdict says %s",
                listed[k - 1].get(key),
            )
        for key in (*LIMITS, "worst"):
            need(
                close(claim.get(key), listed[k - 1].get(key)),
                "%s is %s",
                key,
                listed[k - 1].get(key),
            )
        need(
            (claim.get("against") is True) == (self.verdict.get("against") is not None), "of what?"
        )
        need(len(self.rules()) == len(listed), "there are %d rules", len(listed))
        if claim["against"]:
            return claim["pattern"]
        steps = [
            s
            for c in self.claims
            if c.get("claim") == "tolerance"
            for s in self.steps_judged(c).values()
        ]
        mine = [r for s in steps for r in s.rows if r.rule == k - 1]
        if not all(s.known and s.exact for s in steps if s.rows or not s.known):
            need(bool(mine) == bool(claim["matched"]), "%d differences are of this rule", len(mine))
            return claim["pattern"]
        inside = [r for r in mine if r.share is not None and r.share <= 1]
        said = [claim[key] for key in ("matched", "measured", "unmeasured", "outside")]
        open_ = [r for r in mine if r.share is None and not r.missing]
        over = [r for r in mine if r.share is not None and r.share > 1]
        found = [len(mine), len(inside), len(open_), len(over)]
        need(said == found, "differences, inside, not measured, outside: %s", found)
        worst = max((r.share for r in inside), default=None)
        need(close(claim.get("worst"), worst), "it uses %s of what it allows", worst)
        there = {r.where for r in inside if close(r.share, worst)} or {None}
        need(claim.get("where") in there, "that is %s", sorted(map(str, there))[0])
        return "%s: %d differences" % (printable(claim["pattern"], again=True), len(mine))

    def judgement(self, compared):
        """The claim about what follows the equal steps of two traces; None where
        nothing follows.
        """
        for c in self.claims:
            same = c.get("claim") == "tolerance" and c.get("runs") == compared.get("runs")
            if same and c.get("traces") == compared.get("traces"):
                return c
        return None

    def within(self, claim):
        """What must hold for "within tolerance", whatever the claims say: docs/verdict.md."""
        against = [c for c in self.claims if c.get("claim") in ("unseen", "artifact", "outcome")]
        need(not against, "another claim contradicts it")
        partial = [  # other numbers of ranks: rank 0's weights stand for all
            c["runs"]
            for c in self.claims
            if c.get("claim") == "same-range" and "only-weights" in Rules(c).words
        ]
        alone = [
            c for c in self.claims if c.get("claim") == "only-in" and c.get("runs") not in partial
        ]
        need(not alone, "something is in one run only")
        need(not any(r.failed() for r in self.runs), "a run failed")
        need(self.rules(), "no rule allows anything")
        judgements = [c for c in self.claims if c.get("claim") == "tolerance"]
        need(judgements, "nothing was judged")
        for c in judgements:
            need(c.get("inside") is True, "steps of run %s are not inside", c.get("runs"))
            self.tolerance(c)
        for _ in self.every_pair():
            pass
