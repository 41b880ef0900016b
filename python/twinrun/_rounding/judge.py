# SPDX-License-Identifier: Apache-2.0
"""Holds two arms against each other, operation by operation: equal, rounding, beyond, not known.

Rounding shrinks when the precision is raised; a bug stays. So both arms are computed again in
float64 from equal beginnings, and values of the two that agree there, up to what float64 loses, are
the same quantity, whatever their names are. What one arm computes and the other has nothing for is
a difference of what is computed: beyond rounding. Values that are the same quantity are judged by
their own rounding: from the last such values on, as they were recorded.
"""

import torch

import arms
import bounds
from bounds import TINY, U, Unknown

SAME, ROUNDING, BEYOND, NOT_KNOWN, INSIDE, AFTER = (
    "equal",
    "rounding",
    "beyond rounding",
    "not known",
    "inside",
    "after",
)
WEAK = 1e-9  # of a value: what float64 may have lost without the match becoming meaningless
MEANINGLESS = 0.5  # of a value: a bound that says nothing
LESS_STABLE = 64  # times what A may lose, that B may lose and still be called rounding
FUSED_ROUNDINGS = 4  # of a half type, that the pieces of one fused operation may make


def _bits_equal(a, b):
    if a.dtype != b.dtype or a.numel() != b.numel():
        return False
    if not a.numel():
        return True
    one, other = a.contiguous().flatten(), b.contiguous().flatten()
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def _same_quantity(a, b):
    x, y = a.exact.flatten(), b.exact.flatten()
    if not x.is_floating_point() or not y.is_floating_point():
        return x.dtype == y.dtype and torch.equal(x, y)
    allowed = 2 * (a.error.flatten() + b.error.flatten())
    near = (x - y).abs() <= allowed
    return bool((near | (x == y) | (torch.isnan(x) & torch.isnan(y))).all())


def _size(value):
    finite = value.exact[torch.isfinite(value.exact)]
    if not finite.numel():
        return torch.zeros_like(value.exact)
    return value.exact.abs().nan_to_num(0, 0, 0) + finite.square().mean().sqrt()


def _is_weak(value, other):
    """Do two values that may be the same quantity lie further apart than a bug could hide in?"""
    if value.weak or other.weak or value.error is None:
        return value.weak or other.weak
    y = other.exact.reshape(value.exact.shape)
    away = torch.where(value.exact == y, 0.0, (value.exact - y).abs()).nan_to_num(0.0)
    return bool((away > WEAK * _size(value)).any())


class Pairing:
    """Which values of the two arms are the same quantity."""

    def __init__(self, a):
        self.classes = {}
        for value in a.values:
            if value.exact is not None:
                self.classes.setdefault(value.data.numel(), []).append(value)

    def find(self, value):
        found = []
        for other in self.classes.get(value.data.numel(), ()):
            if value.maker is None:
                # what was there before is the same where its bytes are
                if other.maker is None and _bits_equal(value.data, other.data):
                    found.append(other)
            elif _same_quantity(other, value):
                found.append(other)
        if not found:
            return

        def likeness(other):
            name = other.maker.name if other.maker else ""
            own = value.maker.name if value.maker else ""
            return (
                other.data.dtype == value.data.dtype,
                name == own,
                tuple(other.data.shape) == tuple(value.data.shape),
                _bits_equal(other.data, value.data),
                -abs(other.number - value.number),
            )

        value.match = max(found, key=likeness)
        value.weak = _is_weak(value, value.match)
        self._anchor(value, value.match)
        for other in found:
            if other.match is None:
                other.match = value

    def _anchor(self, value, other):
        """A quantity is known as well as either arm knows it: what follows is bounded from there.
        Without this, sums that give back what they lose would have no bound.
        """
        if value.error is not None:
            known = other.error.reshape(value.error.shape)
            away = (value.exact - other.exact.reshape(value.exact.shape)).abs().nan_to_num(0, 0, 0)
            value.error = torch.minimum(value.error, known + away)


def unexplained(arm, weak=True):
    """Values that have no match and from which something leads to where nobody reads on, past all
    matches: what the other arm does not compute. In the order of the program. weak: matches that
    say little count, too.
    """
    explained = {}
    for value in reversed(arm.values):
        if value.match is not None and (weak or not value.weak):
            explained[value.number] = True
            continue
        made = [v for op in value.readers for v in op.outs]
        if not value.readers:
            # an output that nobody takes, behind the one that the operation is called for
            before = value.maker.outs[: value.slot] if value.maker else []
            explained[value.number] = any(v.readers or v.match is not None for v in before)
            continue
        explained[value.number] = (
            all(op.outs for op in value.readers)
            and bool(made)
            and all(explained.get(v.number, False) for v in made)
        )
    return [v for v in arm.values if not explained[v.number]]


def region(value, arm_a=False):
    """The operations that lead to a value from values that have a match, in their order. In arm A
    several values may be one of B's: those do not end it.
    """
    found, stack = {}, [value.maker] if value.maker else []
    while stack:
        op = stack.pop()
        if op.number in found:
            continue
        found[op.number] = op
        for v in op.inputs:
            passed = v.match is None or arm_a and v.match is value.match
            if passed and v.maker is not None:
                stack.append(v.maker)
    return [found[n] for n in sorted(found)]


def own_error(value, cap=None, last=None, slack=0, arm_a=False):
    """(distance, bound) of each element: how far a recorded value lies from what its region gives
    in float64 for the recorded values that go in, and how far rounding can take it. cap, last: a
    type that the values within, and the last one, are to be held against where theirs is coarser.
    """
    known = {}

    def of(v):
        return known[v.number] if v.number in known else arms.carrying(v.data, None)

    for op in region(value, arm_a):
        kind = arms.inner_unit(op)
        if cap is not None and U[kind] > U[cap]:
            kind = cap
        made = arms.run(op, of, U[kind], TINY[kind])
        for v, t in zip(op.outs, made):
            if t.is_floating_point():
                out = v.data.dtype
                limit = last if v is value else cap
                if limit is not None and U[out] > U[limit]:
                    out = limit
                error = bounds.error_of(t)
                size = t.abs().nan_to_num(0, 0, 0) + error
                if U[out] > U[kind] or _narrows(op, v):
                    error = error + U[out] * size + TINY[out]
                if v is value and slack:
                    error = error + slack * U[v.data.dtype] * size
                t = arms.carrying(t, error)
            known[v.number] = t
    t = known[value.number]
    if not t.is_floating_point():
        return None
    real = value.data.double()
    away = (real - t).abs()
    away = torch.where((real == t) | (torch.isnan(real) & torch.isnan(t)), 0.0, away)
    return away.nan_to_num(nan=float("inf")), bounds.error_of(t)


def _narrows(op, value):
    """Does it write into a coarser type than it read, such as a cast?"""
    types = [v.data.dtype for v in op.inputs if v.data.is_floating_point()]
    return any(U[t] < U[value.data.dtype] for t in types if t in U)


def _times(away, bound):
    """The most that a distance is of its bound."""
    if not away.numel():
        return 0.0
    return float(torch.where(away == 0, torch.zeros_like(away), away / bound).nan_to_num(0).max())


def _cap(value, other):
    """The type that the region of `value` is to be held against within, and the extra roundings
    that it is granted: the coarsest that the other arm uses there.
    """
    steps = region(other, True)
    if not steps or any(op.name == "assemble" for op in steps):
        return None, 0
    types = [arms.inner_unit(op) for op in steps]
    types += [
        v.data.dtype
        for op in steps
        for v in op.outs
        if v is not other and v.readers and v.data.is_floating_point()
    ]
    coarsest = max(types, key=lambda t: U.get(t, 1.0))
    alone = len(steps) == 1 and U.get(other.data.dtype, 0) > U[torch.float32]
    return coarsest, FUSED_ROUNDINGS - 1 if alone else 0


def judge_value(value):
    """(verdict, how many times the bound, why) of a value of B that has a match."""
    other = value.match
    if value.weak:
        return NOT_KNOWN, None, "so much is lost here, in float64 too, that a match says nothing"
    same = _bits_equal(value.data, other.data)
    if same and value.data.shape == other.data.shape and value.maker is not None:
        if _bits_equal_inputs(value, other):
            return SAME, 0.0, ""
    if not value.data.is_floating_point():
        return (SAME, 0.0, "") if same else (NOT_KNOWN, None, "decided by rounded numbers")
    try:
        cap, slack = _cap(value, other)
        last = other.data.dtype if U[value.data.dtype] > U[other.data.dtype] else None
        found = own_error(value, cap, last, slack)
        beside = own_error(other, arm_a=True) if other.maker is not None else None
    except Unknown as error:
        return NOT_KNOWN, None, "no bound for %s" % error
    if _meaningless(value, found) and beside is not None:
        # the errors of such a sum undo each other, which no bound on each sees
        found = found[0], beside[1].reshape(found[1].shape)
    if _meaningless(value, found) or beside is not None and _meaningless(other, beside):
        return NOT_KNOWN, None, "the bound on its rounding is as large as the value"
    times = _times(*found)
    worse = _times(found[0], _granted(other, beside).reshape(found[0].shape))
    beside = _times(*beside) if beside else 0.0
    if times <= 1 and worse > LESS_STABLE:
        why = "B loses more here than the way in which A computes this can lose"
        return BEYOND, worse, why
    if times > 1:
        why = "B rounds more than its operations and types explain"
        if last is not None:
            why = "B keeps in %s what A keeps in %s" % (_name(value), _name(other))
        return BEYOND, times, why
    if beside > 1:
        return BEYOND, beside, "A rounds more than its operations and types explain"
    return (SAME if same else ROUNDING), max(times, beside), ""


def _granted(other, beside):
    """What A may lose at this value, where it is computed or only read."""
    unit = U[other.data.dtype] * _size(other) + TINY[other.data.dtype]
    return unit if beside is None else unit + beside[1]


def _meaningless(value, found):
    """Is a bound so wide that it would let everything pass?"""
    size = _size(value)
    wide = found[1] > MEANINGLESS * size + TINY[torch.float32]
    return bool((wide & torch.isfinite(value.exact)).any())


def _name(value):
    return str(value.data.dtype)[6:]


def _bits_equal_inputs(value, other):
    mine, theirs = value.maker.inputs, other.maker.inputs if other.maker else []
    if len(mine) != len(theirs) or value.maker.name != (other.maker and other.maker.name):
        return False
    return all(_bits_equal(x.data, y.data) for x, y in zip(mine, theirs))


def _nearest(value, others):
    """Of the values that only A has, the one that B's stands for: its shape, its operation, and
    then how near it is.
    """
    same = [o for o in others if o.data.numel() == value.data.numel() and o.exact is not None]
    if not same or value.exact is None or not value.exact.is_floating_point():
        return None
    same = [o for o in same if o.exact.is_floating_point()]

    def far(other):
        away = (other.exact.flatten() - value.exact.flatten()).nan_to_num(0, 0, 0)
        return float(away.square().sum())

    return min(same, key=far) if same else None


class Answer:
    """rows: (operation of B, verdict, times the bound, why), in its order. finding: the first of
    them that is beyond rounding, with what A computes in its place; None.
    """

    def __init__(self):
        self.rows, self.finding, self.notes = [], None, []

    def count(self, verdict):
        return sum(row["verdict"] == verdict for row in self.rows)

    @property
    def outcome(self):
        if self.finding:
            return "beyond rounding"
        if self.notes or any(r["verdict"] == NOT_KNOWN for r in self.rows) or not self.rows:
            return "not known"
        return "rounding" if self.count(ROUNDING) else "equal"


def _row(op, verdict, times, why):
    return {
        "operation": op.name,
        "number": op.number,
        "scope": op.scope,
        "site": op.site,
        "verdict": verdict,
        "times": times,
        "why": why,
    }


def _only_in_b(answer, left, left_a):
    """The finding where B computes what A does not."""
    # what only puts together what was written in pieces has no line of its own
    first = next((v for v in left if v.maker is None or v.maker.name != "assemble"), left[0])
    op = first.maker
    if any(v.maker is None for v in left):
        answer.notes.append("the arms do not start from equal values: B has some that A has not")
        return
    short = op.name.split(".")[-2] if "." in op.name else op.name
    if short in arms.DRAWS:
        answer.notes.append("B draws other numbers than A (%s at %s)" % (op.name, op.site))
        return
    if any(v.exact is None for v in left + left_a):
        answer.notes.append("an operation without a rule stands between the arms' values")
        return
    if any(v.weak and not v.data.is_floating_point() for v in left[:1]):
        answer.notes.append("%s at %s decides by rounded numbers" % (op.name, op.site))
        return
    other = _nearest(first, left_a)
    times = None
    if other is not None:
        away = (first.exact.flatten() - other.exact.flatten()).abs()
        away = torch.where(first.exact.flatten() == other.exact.flatten(), 0.0, away)
        allowed = 2 * (first.error + other.error.reshape(first.error.shape)).flatten()
        times = _times(away, allowed)
    place = other or (left_a[0] if left_a and left_a[0].maker else None)
    why = "in float64, too, nothing that A computes is equal to it: another function, not rounding"
    answer.finding = _row(op, BEYOND, times, why)
    before = next((v.maker for v in left_a if v.maker and v.maker.name != "assemble"), None)
    if before is not None:
        answer.finding["first_in_a"] = {
            "operation": before.name,
            "scope": before.scope,
            "site": before.site,
        }
    if place is not None and place.maker is not None:
        answer.finding["instead_of"] = {
            "operation": place.maker.name,
            "scope": place.maker.scope,
            "site": place.maker.site,
        }


def judge(a, b):
    """The Answer for two recordings."""
    answer, pairing = Answer(), None
    for name, arm in (("A", a), ("B", b)):
        if arm.gap:
            answer.notes.append("%s: %s" % (name, arm.gap))
        arms.in_float64(arm, pairing.find if pairing else (lambda value: None))
        pairing = pairing or Pairing(arm)
        for number, why in sorted(arm.unknown.items())[:3]:
            op = arm.operations[number]
            answer.notes.append("%s: no rule for %s at %s" % (name, why, op.site))
    left, left_a = unexplained(b), unexplained(a)
    _only_in_b(answer, left, left_a) if left else None
    if left_a and not left:
        op = left_a[0].maker
        answer.notes.append(
            "A computes what B does not: %s"
            % ("%s at %s" % (op.name, op.site) if op else "a value")
        )
    # weak matches that nothing hangs on: what follows has a better one
    needed = {v.number for v in unexplained(b, weak=False)}
    end = answer.finding["number"] if answer.finding else len(b.operations)
    for op in b.operations:
        if op.name == "assemble" or not op.outs:
            continue
        if op.number >= end:
            verdict = BEYOND if op.number == end else AFTER
            answer.rows.append(_row(op, verdict, None, ""))
            continue
        answer.rows.append(_judge_operation(op, needed))
    first = next((r for r in answer.rows if r["verdict"] == BEYOND and r["why"]), None)
    if first is not None:
        answer.finding = first
    if answer.finding:
        for row in answer.rows:
            if row["number"] > answer.finding["number"]:
                row["verdict"], row["times"], row["why"] = AFTER, None, ""
    return answer


ORDER = (SAME, INSIDE, ROUNDING, NOT_KNOWN, BEYOND)


def _judge_operation(op, needed):
    """The worst of what it made."""
    worst = (SAME, 0.0, "")
    for value in op.outs:
        if value.exact is None:
            found = NOT_KNOWN, None, "no rule for this operation, or for one before it"
        elif value.match is None or value.weak and value.number not in needed:
            found = INSIDE, None, "between values that both arms have"
        else:
            found = judge_value(value)
        if ORDER.index(found[0]) > ORDER.index(worst[0]):
            worst = found
    row = _row(op, *worst)
    if worst[0] == BEYOND:
        steps = [s for v in op.outs if v.match is not None for s in region(v)]
        row["between"] = sorted({s.site for s in steps if s.site})
    return row
