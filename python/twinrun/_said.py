# SPDX-License-Identifier: Apache-2.0
"""The sentence that a finding carries ("how"), held against the two records that it is about."""

import math
import re

from ._numbers import single
from ._recorded import is_given_back
from .trace import KINDS, PART, PHASES

RNG = PHASES.index("rng")
GIVEN = PHASES.index("data"), KINDS.index("in")
BACK = PHASES.index("forward"), KINDS.index("activation")
THREADS = (
    "several threads train at once and share the count of steps: their records are equal, "
    "the steps they fall into are not"
)


def fits(claim, x, y, a, b):
    """Is the claim's text one that these records (None: the run has none) give?"""
    text, kind = claim.get("text"), claim.get("type")
    if "zoom" in claim and text == "":
        return True  # what an operation is named for stands in its own fields
    if re.fullmatch("with [1-9][0-9]* more of its kind", str(text)):
        return True  # a transplanted run's origin, which its rate is a claim of
    if kind in ("only-a", "only-b"):
        return text in alone(claim, a or b, 0 if a else 1)
    if kind == "order":
        return text in ("same records, another order", THREADS)
    if not a or not b:
        return False
    return text in together(claim, x, y, a, b)


def alone(claim, r, side):
    where = "only in run %d" % claim["runs"][side]
    return ("%s, where %s drew from it" % (where, r.op) if draws(r) else where,)


def draws(r):
    return r.key[0] == RNG and bool(r.op)


def together(claim, x, y, a, b):
    """All that may be said of two records that differ."""
    if b.key[0] == PHASES.index("init") and b.step == 0 and a.key[0] != b.key[0]:
        return (
            "at the seam: run %d after step %d, run %d at its start"
            % (claim["runs"][0], a.step, claim["runs"][1]),
        )
    if draws(a):
        return ("drawn by %s" % a.op,)
    if claim.get("type") == "layout":
        return ("",)
    rows = [r for r in x.rows.get(a.step, ()) if r.key == a.key]
    if len(rows) > 1:
        return (nth(rows, a, b),)
    return (permuted(a, b), *carried(claim, x, y, a, b))


def carried(claim, x, y, a, b):
    """Was one run alone given the bytes that the function had given back before?"""
    if a.key[:2] != GIVEN or not a.key[3] or (a.flags | b.flags) & PART:
        return
    found = [given_back(x, a), given_back(y, b)]
    for i, step in enumerate(found):
        if step is not None and step >= 0 and found[1 - i] is None:
            runs = ["run %d" % claim["runs"][side] for side in (i, 1 - i)]
            function = a.key[3].encode()[:100].decode("utf-8", "ignore")
            yield (
                "%s was given, byte for byte, what %s gave back in step %d; %s was not"
                % (runs[0], function, step, runs[1])
            )


def given_back(steps, given):
    """The step, its own or the one before, in which its function gave these bytes back; None: in
    neither; -1: one of these results was not read, or in part, and may be the one.
    """
    for step in (given.step, given.step - 1):
        results = [
            r
            for r in steps.rows.get(step, ())
            if (r.key[:2] == BACK or is_given_back(r.key))
            and r.key[3] == given.key[3]
            and (r.step, r.seq) < given[:2]
        ]
        end = steps.ends.get(step)
        if (end and end.dropped) or any(r.unread or r.flags & PART for r in results):
            return -1
        if any(r.content == given.content for r in results):
            return step
    return None


def nth(rows, a, b):
    place = 1 + sum(r.seq < a.seq for r in rows)
    text = "%d%s of %d in this step" % (place, ending(place), len(rows))
    p, q = single(a), single(b)
    if p is not None and q is not None:
        text += ": %s and %s" % (shown(p), shown(q))
    if any(r.content == b.content for r in rows):
        text += "; the other run holds it at another place"
    return text


def shown(x):
    """A number as C's %.9g prints it."""
    if math.isnan(x):
        return "nan"
    return "%.9g" % x


def ending(n):
    if n % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")


def permuted(a, b):
    s, t = a.stats, b.stats
    alike = s and t and s.count > 1 and s[:2] == t[:2] and s.zeros == t.zeros
    alike = alike and (s.min, s.max) == (t.min, t.max)
    near = alike and all(
        abs(p - q) <= 1e-12 * abs(p) for p, q in ((s.sum, t.sum), (s.sumsq, t.sumsq))
    )
    return "same sum, minimum and maximum: the same values in another order?" if near else ""
