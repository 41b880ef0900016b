# SPDX-License-Identifier: Apache-2.0
"""The claim of a clock experiment: numbers that followed the clock in two runs under faster clocks.

A claim names the two runs, how many times as fast their clocks were, and the columns: a number in a
line of run 1, which stands for all lines that say the same. Each is looked up in the three runs.
"""

import math
import re
from collections import Counter

from . import _lines, _written
from ._facts import NUMBER
from ._recorded import STATE, contents, items, need, number, word

WITHIN = 3.0
STREAMS = ("stdout", "stderr", "stdout and stderr")
RESULTS = _lines.words(
    "loss losses acc accuracy error err errors score reward return f1 auc map ppl perplexity bleu"
    " rouge norm grad lr mse mae rmse r2 iou dice psnr ssim fid wer cer energy residual precision"
    " recall nll kl elbo correct checksum hash digest"
)
SECONDS_IN = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
PART = re.compile(r"(\d+(?:\.\d+)?)([a-z]+) ?")


def span(text):
    """(least, most) that a printed number can have been before it was rounded; None: no number."""
    m = NUMBER.match(text.lstrip("~"))
    if not m or m[0][0] == "-" or "x" in m[0].lower():  # no clock is printed in hexadecimal
        return None
    digits, _, power = m[0].replace(",", "").lower().partition("e")
    half = 0.5 * 10.0 ** (-len(digits.partition(".")[2]) + int(power or 0))
    middle = float(m[0].replace(",", ""))
    return max(middle - half, 0), middle + half


def in_seconds(text):
    """The line with "1m23s" as one number."""

    def total(m):
        return "%gs" % sum(float(n) * SECONDS_IN.get(unit, 1) for n, unit in PART.findall(m[0]))

    return _lines.IN_PARTS.sub(total, text)


def held_beside(run):
    """What was held still in a run, beside what made its clocks faster."""
    agents = run.json.get("factors", {}).get("agents", {})
    factors = str(agents.get("TWINRUN_FACTORS") or "").split(",")
    return sorted(f for f in factors if f and not f.startswith("clock=scale:")), agents.get(
        "TWINRUN_PINS"
    )


def quotient(x, y):
    return y[0] / x[1], (y[1] / x[0] if x[0] > 0 else math.inf)


class Lines:
    """The lines of a stream, or of a file, of one run, by what they say without their numbers."""

    def __init__(self, run, stream, first):
        own = _lines.facts(run.json, run.folder)
        if stream in STREAMS:
            lines = run.stream(stream)
        else:
            lines = _written.lines(run, stream, own, _lines.facts(first.json, first.folder))
        self.masked = [in_seconds(_lines.masked(line, own)) for line in lines]
        self.by = {}
        for text in self.masked:
            self.by.setdefault(_lines.skeleton(text), []).append(text)


class Clock:
    """Part of Recheck."""

    times = frozenset()  # (stream, what a line says, which of its numbers): shown to be times

    def clock(self, claim):
        first, folders = self.runs[0], items(claim, "faster")
        need(len(folders) == 2, "two runs are wanted")
        factors = [number(claim, "factors", i, least=4) for i in range(2)]
        faster = [self.beside(first, name) for name in folders]
        need(folders[0] != folders[1] and factors[0] != factors[1], "they are one experiment")
        for run, factor in zip(faster, factors):
            asked = run.json.get("factors", {}).get("agents", {}).get("TWINRUN_FACTORS", "")
            need(
                "clock=scale:%d:" % factor in str(asked),
                "the clock was not %d times as fast",
                factor,
            )
            need(not run.failed() and not run.stopped(), "a run under a faster clock failed")
            need(run.json.get("argv") == first.json.get("argv"), "another command was run")
            need(held_beside(run) == held_beside(first), "something else was held still")
        columns = items(claim, "columns")
        found = {self.column(c, first, faster, factors) for c in columns}
        need(len(found) == len(columns), "a column is named twice")
        for run in faster:
            self.rest_is_equal(first, run, found)
        self.times = frozenset(found)
        return "%d numbers followed the clock" % len(found)

    def column(self, c, first, faster, factors):
        stream, at = word(c, "stream"), number(c, "line", least=1)
        mine = Lines(first, stream, first)
        need(at <= len(mine.masked), "%s has no such line", stream)
        text, shown = mine.masked[at - 1], re.sub(r"\s+", " ", in_seconds(word(c, "number")))
        shown = re.sub(r"(?<![\w~#]) | (?![\w~#+.-])", "", shown)
        numbers = [m.span() for m in NUMBER.finditer(text)]
        first_of = NUMBER.match(shown)
        need(first_of, "%s is no number", shown)
        equal = [i for i, (a, b) in enumerate(numbers) if text[a:b] == first_of[0]]
        need(number(c, "place") < len(equal), "line %d does not say %s", at, shown)
        which = equal[c["place"]]
        place = numbers[which][0]
        need(text.startswith(shown, place), "line %d does not say %s", at, shown)
        label = _lines.Label(text, place)
        need(not RESULTS.intersection(label.parts), "%s is a result by its name", shown)
        said = _lines.skeleton(text)
        rows = mine.by[said]
        need(len(rows) == number(c, "lines"), "%d lines say the same", len(rows))
        for run, factor in zip(faster, factors):
            others = Lines(run, stream, first).by.get(said, [])
            need(len(others) == len(rows), "under the faster clock %d lines say so", len(others))
            self.follows(rows, others, which, factor, "/" in shown)
        return stream, said, which

    @staticmethod
    def follows(rows, others, which, factor, rate):
        ways, decided = {"grows", "shrinks"} if rate else {"grows"}, False
        for a, b in zip(rows, others):
            x, y = (span(t[[m.start() for m in NUMBER.finditer(t)][which] :]) for t in (a, b))
            need(x and y, "no number")
            fit = set()
            for way, (low, high) in (("grows", quotient(x, y)), ("shrinks", quotient(y, x))):
                if low <= factor * WITHIN and high >= factor / WITHIN:
                    fit.add(way)
                    decided |= low >= factor / WITHIN / 2 and high <= factor * WITHIN * 2
            ways &= fit
            need(ways, "%r and %r do not follow a clock %d times as fast", a[:80], b[:80], factor)
        need(decided, "no line shows that it follows the clock")

    def rest_is_equal(self, first, run, times):
        for stream in ("stdout", "stderr"):
            a, b = (
                Counter(without(t, stream, times) for t in Lines(r, stream, first).masked)
                for r in (first, run)
            )
            left = [t for t in (a - b) if _lines.skeleton(t) in set(map(_lines.skeleton, b - a))]
            open_ones = [t for t in left if not open_number(t)]
            need(not open_ones, "under the faster clock %r is another result", open_ones[:1])
        need(recorded(first) == recorded(run), "under the faster clock other values were recorded")


def open_number(text):
    """Has the line a number with a unit of time or rate of which nothing is known?"""
    return any(
        _lines.unit_behind(text, m.end())[0] in ("time", "rate") for m in NUMBER.finditer(text)
    )


def recorded(run):
    """What each process recorded, generators' states aside, whatever its pid."""
    out = Counter()
    for name in run.traces():
        s = run.steps(name)
        rows = [r for step in s.rows.values() for r in step if r.key[1] != STATE]
        out[(name.split("/")[1].split(".")[0], s.info.role, frozenset(contents(rows).items()))] += 1
    return out


def without(text, stream, times):
    """A masked line with the numbers masked, too, that the experiment showed to be times."""
    if not times:
        return text
    text = in_seconds(text)
    said = _lines.skeleton(text)
    which = {n for t, line, n in times if t == stream and line == said}
    if not which:
        return text
    spans = [m.span() for i, m in enumerate(NUMBER.finditer(text)) if i in which]
    for a, b in reversed(spans):
        text = text[:a] + "~" + text[b:]
    return text
