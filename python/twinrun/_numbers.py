# SPDX-License-Identifier: Apache-2.0
"""How twinrun.recheck holds the numbers of a verdict against the recordings.

How large the first difference is, what differs when, how fast it grows, which NaN came first. The
claims and their fields: docs/format/verdict.md.
"""

import math
import os
import re
import struct

from . import _lines
from ._recorded import (
    OPTIMIZER,
    WEIGHT,
    Rules,
    differences,
    is_given_back,
    items,
    need,
    number,
    printable,
    word,
)
from .trace import KINDS, PHASES

VALUES_MAX = 256 << 20  # bytes of a kept tensor
F16, BF16, F32, F64, C64, C128 = 6, 7, 10, 13, 14, 15  # docs/format/trace.md has all dtypes
# dtype: bytes of an element, bits of the exponent, bits of the mantissa
FLOATS = {F16: (2, 5, 10), BF16: (2, 8, 7), F32: (4, 8, 23), F64: (8, 11, 52)}
PARTS = {C64: F32, C128: F64}  # a complex number is two of these
WHOLE = {1: "B", 2: "b", 3: "B", 4: "H", 5: "h", 8: "I", 9: "i", 11: "Q", 12: "q"}
KIND = {name: i for i, name in enumerate(KINDS)}
WHAT = {
    "state": "generator state",
    "moment": "optimizer state",
    "gradient (local)": "local gradients",
    "hyper": "hyperparameters",
}


def close(x, y):
    """Two numbers, or nulls, that are the same but for rounding in the last places."""
    if x is None or y is None:
        return x is y
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in (x, y))
    return numbers and math.isclose(x, y, rel_tol=1e-9, abs_tol=0.0)


def finite(x):
    return x if x is not None and math.isfinite(x) else None


def elements(row):
    shape = row.content[0]
    return math.prod(shape[1:]) if shape else 1


def single(row):
    """The value of a record that holds one number; None where it does not, or does not say."""
    s = row.stats
    if s is None or s.count != 1 or elements(row) != 1:
        return None
    if s.nan:
        return math.nan
    return math.inf if s.pos_inf else -math.inf if s.neg_inf else s.sum


def distance(a, b):
    """(absolute, relative, exact) distance of two records; None where it is not known."""
    x, y = single(a), single(b)
    if a.content[:2] != b.content[:2]:
        return None, None, False
    if x is not None and y is not None:
        apart = abs(x - y)
        if apart == 0:
            return 0.0, 0.0, True
        return apart, finite(apart / abs(x)) if x else None, True
    if not a.sketch or not b.sketch or a.skipped or b.skipped or len(a.sketch) != len(b.sketch):
        return None, None, False
    apart = math.sqrt(sum((p - q) ** 2 for p, q in zip(a.sketch, b.sketch)))
    norm = a.stats.sumsq if a.stats else sum(p * p for p in a.sketch)
    if apart == 0:
        return 0.0, 0.0, False
    return apart, finite(apart / math.sqrt(norm)) if norm > 0 else None, False


def not_finite(row):
    s = row.stats
    return s.nan + s.pos_inf + s.neg_inf if s else 0


# ---- units in the last place


def ordered(bits, size):
    sign = 1 << (8 * size - 1)
    return -(bits & (sign - 1)) if bits & sign else bits


def is_nan(bits, dtype):
    size, exponent, mantissa = FLOATS[dtype]
    full = (1 << exponent) - 1
    return bits >> mantissa & full == full and bits & ((1 << mantissa) - 1) != 0


def ulps(p, q, dtype):
    """Between two bit patterns; "one is NaN" when that is so."""
    if is_nan(p, dtype) or is_nan(q, dtype):
        return "one is NaN"
    size = FLOATS[dtype][0]
    return abs(ordered(p, size) - ordered(q, size))


def bits_of(x, dtype):
    code = {F32: "<f", F64: "<d"}[dtype]
    return int.from_bytes(struct.pack(code, x), "little")


def between(x, y, dtype):
    """The same of two elements as they lie in memory; 0 where a type has no such unit."""
    if dtype not in FLOATS:
        return 0
    return ulps(int.from_bytes(x, "little"), int.from_bytes(y, "little"), dtype)


def value_of(data, dtype):
    if dtype == BF16:
        return struct.unpack("<f", b"\0\0" + data)[0]
    code = {F16: "e", F32: "f", F64: "d"}.get(dtype) or WHOLE[dtype]
    return float(struct.unpack("<" + code, data)[0])


class Numbers:
    """Claims about numbers, beside those of _claims.Claims."""

    # ---- size

    def size(self, claim):
        at = items(claim, "at")
        first = [c for c in self.claims if c.get("first") is True]
        need(len(first) == 1 and first[0].get("at") == at, "it is not what differs first")
        if claim["runs"][0] is None:
            b = self.record(claim, 1)[1]
            need(number(claim, "elements") == elements(b), "it has %d elements", elements(b))
            return "%d elements; the other side is a baseline" % elements(b)
        a, b = self.record(claim, 0)[1], self.record(claim, 1)[1]
        n = elements(a)
        need(number(claim, "elements") == n, "it has %d elements", n)
        bad = [not_finite(a), not_finite(b)]
        need(claim.get("not_finite") == bad, "NaN or Inf: %d and %d", *bad)
        x, y = single(a), single(b)
        said = None
        if x is not None and y is not None and not math.isnan(x) and not math.isnan(y):
            said = [finite(x), finite(y)]
        need(claim.get("values") == said, "the values are %s", said)
        if claim.get("changed") is not None and (x is None or y is None):
            changed, ulp, relative = self.kept(claim, a, b)
            exact = relative is not None
        else:
            changed = 1 if x is not None and y is not None else None
            ulp = self.one_ulp(a, x, y)
            _, relative, exact = distance(a, b)
        need(claim.get("changed") == changed, "%s elements differ", changed)
        said = claim.get("max_ulp")
        need(said == ulp or close(said, ulp), "they are %s ulp apart", ulp)
        need(close(claim.get("rel_l2"), relative), "the relative distance is %s", relative)
        need(claim.get("exact") is exact, "the distance is %sexact", "" if exact else "not ")
        return "%d elements, relative distance %s" % (n, relative)

    def one_ulp(self, a, x, y):
        dtype = a.content[0][0] if a.content[0] else None
        if x is None or y is None or dtype not in (F32, F64):
            return None
        if math.isnan(x) and math.isnan(y):
            return None  # only the payload differs, which statistics do not hold
        return ulps(bits_of(x, dtype), bits_of(y, dtype), dtype)

    def kept(self, claim, a, b):
        """(changed elements, largest ulp, relative distance) from values that the zoom kept."""
        dtype = a.content[0][0]
        part = PARTS.get(dtype, dtype)
        need(part in FLOATS or part in WHOLE, "values of dtype %s are not read here", dtype)
        size = FLOATS[part][0] if part in FLOATS else struct.calcsize(WHOLE[part])
        step = 2 * size if dtype in PARTS else size
        x, y = (self.values(claim, side, row) for side, row in enumerate((a, b)))
        need(len(x) == len(y) == step * elements(a), "the kept values are others")
        changed, most, apart, norm = set(), 0, 0.0, 0.0
        for i in range(0, len(x), size):
            u, w = value_of(x[i : i + size], part), value_of(y[i : i + size], part)
            norm += u * u if math.isfinite(u) else 0.0
            if x[i : i + size] == y[i : i + size]:
                continue
            changed.add(i // step)
            far = between(x[i : i + size], y[i : i + size], part)
            most = max(most, math.inf if far == "one is NaN" else far)
            both = math.isfinite(u) and math.isfinite(w)
            apart += (u - w) ** 2 if both else math.inf
        relative = 0.0 if apart == 0 else finite(math.sqrt(apart / norm)) if norm else None
        if part not in FLOATS:
            most = None
        return len(changed), "one is NaN" if most == math.inf else most, relative

    def values(self, claim, side, row):
        """What the zoom kept of an operation's output, as docs/format/run-folder.md names it."""
        run = self.run(claim, side)
        output = re.search(r"\.out([0-9]+)$", row.key[2])
        need(output, "%s is no output of an operation", printable(row.key[2]))
        name = "values/%d.s%d.o%d.out%s.raw" % (
            claim["rank"],
            row.step,
            row.occurrence,
            output.group(1),
        )
        path = run.path(name)
        need(os.path.getsize(path) <= VALUES_MAX, "%s has more than %d bytes", name, VALUES_MAX)
        with open(path, "rb") as f:
            return f.read()

    # ---- what differs when

    def then(self, claim):
        step, what = number(claim, "step"), word(claim, "what")
        said = {"what": what, "phase": claim.get("phase"), "kind": claim.get("kind"), "step": step}
        need(said in self.verdict.get("then", []), "the verdict does not say so")
        if "stream" in claim:
            return self.printed(claim, what, step)
        x, y = self.pair(claim)
        shift, since = number(claim, "shift", least=-(1 << 32)), number(claim, "from")
        where = PHASES.index(word(claim, "phase")), KIND[word(claim, "kind")]
        need(what == name_of(*where), "such a record is called %s", name_of(*where))
        need(since <= step, "it would differ before the first difference")
        rules = Rules(claim)
        self.begins(claim, shift, since)
        every = claim.get("every_step") is True
        need(every == (step - since < 64), "each of the first 64 steps is looked at, no later one")
        plain = self.plainly_parts(x, y, step, shift, where)
        parts = plain or self.parts(x, y, step, shift, where, rules)
        need(parts, "no %s differs in step %d", what, step)
        for s in range(since, step) if every else ():
            need(not self.parts(x, y, s, shift, where, rules), "%s differ in step %d", what, s)
        return "%s from step %d on" % (what, step)

    def begins(self, claim, shift, since):
        """The step from which on it was looked is where the equal ones end."""
        for c in self.claims:
            same = c.get("claim") == "same-range" and c.get("runs") == claim["runs"]
            if not same or c.get("traces") != claim["traces"] or "zoom" in c:
                continue
            end, words = number(c, "first") + number(c, "steps"), Rules(c).words
            need(c.get("shift") == shift, "its steps are shifted by %s", c.get("shift"))
            exact = end == since or (since < end and "insertions" in words)
            need(exact or "steps-of-threads" in words, "the first difference is in step %d", end)
            return
        need(False, "these processes were not compared")

    @staticmethod
    def plainly_parts(x, y, step, shift, where):
        """Do two records that both have differ, whatever the rules say of "the same"? A generator
        that nobody draws from counts here, and what a rank holds where arms have other numbers of
        ranks.
        """
        return any(
            d.a and d.b and d.a.key[:2] == where and d.type != "unread"
            for d in differences(x.rows.get(step, ()), y.rows.get(step + shift, ()))
        )

    def parts(self, x, y, step, shift, where, rules):
        """Does a record of that phase and kind differ in this step?"""
        for d in differences(x.rows.get(step, ()), y.rows.get(step + shift, ())):
            alone = d.type in ("only-a", "only-b")
            if (d.a or d.b).key[:2] != where or d.type == "unread":
                continue
            if alone and "insertions" in rules.words:
                continue
            if not rules.allows(d, x, y, step, step + shift):
                return True
        return False

    def printed(self, claim, what, step):
        stream, lines = word(claim, "stream"), []
        for side in (0, 1):
            run, n = self.run(claim, side), number(claim, "lines", side, least=1)
            shown = run.stream(stream)
            need(n <= len(shown), "%s has no line %d", stream, n)
            lines.append((shown[n - 1], _lines.facts(run.json, run.folder)))
        for line, _ in lines:
            need(
                re.search(rb"(?<![0-9.])%d(?![0-9])" % step, line), "line %r has no %d", line, step
            )
        need(_lines.masked(*lines[0]) != _lines.masked(*lines[1]), "the two lines say the same")
        name = what[len("printed ") :].encode()
        named = what.startswith("printed ") and (name in lines[0][0] or name == b"line")
        need(named, "that line has no %s", what)
        return "%s at step %d" % (what, step)

    # ---- how fast it grows

    SERIES = {
        "weights": lambda key: key[:2] == (OPTIMIZER, WEIGHT),
        "gradients": lambda key: KINDS[key[1]] == "gradient",
        "loss": lambda key: KINDS[key[1]] == "loss",
    }

    def drift(self, claim):
        x, y = self.pair(claim)
        need(word(claim, "what") in self.SERIES, "nobody knows what grows there")
        wanted, rules = self.SERIES[claim["what"]], Rules(claim)
        shift = number(claim, "shift", least=-(1 << 32))
        steps = [number(claim, "steps", i) for i in range(len(items(claim, "steps")))]
        need(len(steps) >= 3 and steps == sorted(set(steps)), "three steps in order are wanted")
        factor = claim.get("factor")
        need(close(factor, self.verdict.get("drift_per_step")), "the verdict says another factor")
        logs = [self.log_distance(x, y, s, shift, wanted, rules) for s in steps]
        mean, middle = sum(steps) / len(steps), sum(logs) / len(logs)
        spread = sum((s - mean) ** 2 for s in steps)
        slope = sum((s - mean) * (v - middle) for s, v in zip(steps, logs)) / spread
        need(math.isclose(factor, math.exp(slope), rel_tol=1e-6), "it is %g", math.exp(slope))
        return "a factor of %.3g per step, over %d steps" % (factor, len(steps))

    def log_distance(self, x, y, step, shift, wanted, rules):
        apart = norm = 0.0
        for d in differences(x.rows.get(step, ()), y.rows.get(step + shift, ())):
            if d.type != "value" or not wanted(d.a.key):
                continue
            absolute, relative, _ = distance(d.a, d.b)
            of_its_own = "only-weights" in rules.words  # each number of ranks has its own losses
            if relative and (of_its_own or not rules.allows(d, x, y, step, step + shift)):
                apart += absolute * absolute
        for r in x.rows.get(step, ()):
            norm += r.stats.sumsq if r.stats and wanted(r.key) else 0.0
        need(apart > 0 and norm > 0, "the distance at step %d is not known", step)
        return math.log(math.sqrt(apart / norm))

    # ---- NaN and Inf

    def nan(self, claim):
        looked = [
            number(claim, "looked", i, least=1, most=len(self.runs))
            for i in range(len(items(claim, "looked")))
        ]
        k, what = number(claim, "run", least=1, most=len(self.runs)), word(claim, "what")
        need(k in looked and len(set(looked)) == len(looked), "run %d was not looked through", k)
        steps = self.runs[k - 1].steps(word(claim, "trace"))
        need(steps.info.rank == claim.get("rank"), "that trace is of rank %d", steps.info.rank)
        r = steps.at(number(claim, "step"), number(claim, "record"))
        need(is_bad(r), "that record holds neither NaN nor an Inf that matters")
        need(what == ("NaN" if r.stats.nan else "Inf"), "it holds no %s", what)
        need(KINDS[r.key[1]] == claim.get("kind"), "it is of kind %s", KINDS[r.key[1]])
        name = printable(r.key[2])
        need(name == claim.get("name"), "it is %s", name)
        have = [n for n in looked if self.first_bad(self.runs[n - 1]) is not None]
        need(len(have) == number(claim, "have"), "%d of these runs have one", len(have))
        before = min(self.first_bad(self.runs[n - 1]) for n in have)
        need(before == r.step, "the first one is in step %d", before)
        text = str(self.verdict.get("nonfinite"))
        said = "first %s in run %d, rank %d, step %d: " % (what, k, claim["rank"], r.step)
        need(text.startswith(said), "the verdict does not say so")
        return "first %s in step %d, %s" % (what, r.step, name)

    @staticmethod
    def first_bad(run):
        found = [
            s
            for name in run.traces()
            for s, rows in run.steps(name).rows.items()
            if any(map(is_bad, rows))
        ]
        return min(found) if found else None


def name_of(phase, kind):
    """What verdicts call records of a phase and kind."""
    name = KINDS[kind]
    if name == "state":
        return WHAT[name]
    if PHASES[phase] == "init":
        return "initial weights"
    if (PHASES[phase], name) == ("data", "in"):
        return "inputs of modules"
    if PHASES[phase] == "collective" and name in ("in", "out"):
        return "sent to ranks" if name == "in" else "received from ranks"
    if (PHASES[phase], name) == ("optimizer", "gradient"):
        return "written gradients"
    return WHAT.get(name, name + ("s" if name in ("weight", "gradient", "activation") else ""))


def is_bad(r):
    """NaN anywhere, Inf where training cannot live with it: masks hold infinities on purpose."""
    s = r.stats
    if s is None or not s.nan + s.pos_inf + s.neg_inf:
        return False
    kind = KINDS[r.key[1]]
    trained = kind in ("loss", "gradient", "gradient (local)", "moment")
    trained = trained and not is_given_back(r.key)  # states of optax may begin at infinity
    return s.nan > 0 or trained or r.key[:2] == (OPTIMIZER, WEIGHT)
