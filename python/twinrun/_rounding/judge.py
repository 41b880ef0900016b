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
import shared
from bounds import TINY, U, Unknown
from pairing import Pairing, bits_equal, size_of

SAME, ROUNDING, BEYOND, NOT_KNOWN, INSIDE, AFTER = (
    "equal",
    "rounding",
    "beyond rounding",
    "not known",
    "inside",
    "after",
)
MEANINGLESS = 0.5  # of a value: a bound that says nothing
LESS_STABLE = 64  # times what A may lose, that B may lose and still be called rounding
FUSED_ROUNDINGS = 4  # of a half type, that the pieces of one fused operation may make


def _judge_part(value, other):
    """(verdict, how many times the bound, why) of a part, or of what the other arm has in parts: what
    it lost by itself.
    """
    if value.weak:
        return NOT_KNOWN, None, "so much is lost here, in float64 too, that a match says nothing"
    if not value.data.is_floating_point():
        return SAME, 0.0, ""
    try:
        cap, slack = _cap(value, other)
        coarser = U[value.data.dtype] > U[other.data.dtype]
        found = own_error(value, cap, other.data.dtype if coarser else None, slack)
    except Unknown as error:
        return NOT_KNOWN, None, "no bound for %s" % error
    if _meaningless(value, found):
        return NOT_KNOWN, None, "the bound on its rounding is as large as the value"
    times = _times(*found)
    if times > 1:
        why = "B rounds more than its operations and types explain"
        if coarser:
            why = "B keeps in %s what A keeps in %s" % (_name(value), _name(other))
        return BEYOND, times, why
    return ROUNDING, times, ""


def _explained(arm, weak, unknown, passed_over):
    """{number: has it a match, or does all that is made of it lead to one?} of an arm's values.
    passed_over(value): of a copy that no operation reads, whether it needs none.
    """
    explained = {}
    for value in reversed(arm.values):
        if value.exact is None and not unknown:
            explained[value.number] = True
            continue
        met = value.match is not None or value.part is not None
        if met and (weak or not value.weak):
            explained[value.number] = True
            continue
        made = [v for op in value.readers for v in op.outs]
        made = [v for v in made if not (_is_spare(v) and passed_over(v))] or made
        if not made and _looked_at(value):
            explained[value.number] = True
            continue
        if not value.readers:
            # an output that nobody takes, behind the one that the operation is called for
            before = value.maker.outs[: value.slot] if value.maker else []
            explained[value.number] = any(
                v.readers or v.match is not None or v.part is not None for v in before
            )
            continue
        explained[value.number] = (
            all(op.outs for op in value.readers)
            and bool(made)
            and all(explained.get(v.number, False) for v in made)
        )
    return explained


def unexplained(arm, weak=True, unknown=True):
    """Values that have no match and from which something leads to where nobody reads on, past all
    matches: what the other arm does not compute. In the order of the program. weak: matches that
    say little count, too. unknown: so does what leads to values without a rule.
    """
    # a copy goes with its source where that leads to matches that say something
    firm = _explained(arm, False, unknown, lambda v: True)

    def passed_over(value):
        return firm[value.maker.inputs[0].number]

    explained = _explained(arm, weak, unknown, passed_over)
    left = [v for v in arm.values if not explained[v.number]]
    return [v for v in left if not (_is_spare(v) and passed_over(v))]


def _is_spare(value):
    """Is it a copy that no operation reads, such as one that is kept for a backward? It is as its
    source is, where something else is made of that.
    """
    copies = value.maker is not None and value.maker.name == "aten.clone.default"
    return copies and bool(value.maker.inputs) and not value.readers


def proven(a, b):
    """Of B's values without a match those that A has no match for though some of its values are not
    known: as large as none of these, and such a one ends what leads on from them. With the first of
    all that lead there: whether A has that one is not known. ([], None): none.
    """
    left = unexplained(b, unknown=False)
    hidden = {v.data.numel() for v in a.values if v.exact is None}
    ends = set()
    for value in reversed(left):
        made = [v.number for op in value.readers for v in op.outs]
        if not made and value.data.numel() not in hidden or ends.intersection(made):
            ends.add(value.number)
    leading = [v for v in left if v.number in ends]
    return [v for v in leading if v.data.numel() not in hidden], next(iter(leading), None)


def _looked_at(value):
    """Do whole numbers lead to whole numbers of which nothing is computed, such as the largest class
    in a check of arguments? Rounding and its decisions have no part in it; what Python makes of it is
    seen in the operations that follow.
    """
    values = [value, *(value.maker.inputs if value.maker else ())]
    return bool(value.maker and value.maker.inputs) and not any(
        v.data.is_floating_point() for v in values
    )


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
            passed = v.match is None and v.part is None or arm_a and v.match is value.match
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
    alone = len(steps) == 1 and U.get(other.data.dtype, 0) > U[torch.float32]
    if alone:
        # one operation in a half type promises nothing finer: others sum its parts in that type
        types += [v.data.dtype for v in (*steps[0].inputs, other) if v.data.is_floating_point()]
    coarsest = max(types, key=lambda t: U.get(t, 1.0))
    return coarsest, FUSED_ROUNDINGS - 1 if alone else 0


def judge_value(value):
    """(verdict, how many times the bound, why) of a value of B that has a match."""
    other = value.match
    if value.weak:
        return NOT_KNOWN, None, "so much is lost here, in float64 too, that a match says nothing"
    same = bits_equal(value.data, other.data)
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
    unit = U[other.data.dtype] * size_of(other) + TINY[other.data.dtype]
    return unit if beside is None else unit + beside[1]


def _meaningless(value, found):
    """Is a bound so wide that it would let everything pass?"""
    size = size_of(value)
    wide = found[1] > MEANINGLESS * size + TINY[torch.float32]
    return bool((wide & torch.isfinite(value.exact)).any())


def _name(value):
    return str(value.data.dtype)[6:]


def _bits_equal_inputs(value, other):
    mine, theirs = value.maker.inputs, other.maker.inputs if other.maker else []
    if len(mine) != len(theirs) or value.maker.name != (other.maker and other.maker.name):
        return False
    return all(bits_equal(x.data, y.data) for x, y in zip(mine, theirs))


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


def _like(value):
    """What of A an output was held against: the place where that was recorded, or what it was."""
    other = value.match
    if other is None:
        return {"of": value.slot, "what": "none" if value.part is None else "part"}
    if other.maker is None or not other.maker.line:
        return {"of": value.slot, "what": "leaf" if other.maker is None else "part"}
    where = {"rank": other.rank, "line": other.maker.line, "slot": other.slot}
    return {"of": value.slot, **where}


def _row(op, verdict, times, why):
    return {
        "operation": op.name,
        "number": op.number,
        "line": op.line,
        "like": [_like(v) for v in op.outs],
        "scope": op.scope,
        "site": op.site,
        "rank": op.rank,
        "verdict": verdict,
        "times": times,
        "why": why,
    }


def _first_reader(value):
    """The operation that computes with it first."""
    op = value.readers[0]
    while op.name == "assemble" and op.outs[0].readers:
        op = op.outs[0].readers[0]
    return op


def _is_number(value):
    """Is it a number of Python, which C++ hands on as a tensor?"""
    single = value.maker is None and value.data.dim() == 0 and value.data.numel() == 1
    return single and value.data.dtype == torch.float64


def _multiple(value, others):
    """(value of A, factor) of which a value of B is a plain multiple; (None, None)."""
    x = value.exact.flatten()
    for other in others:
        y = other.exact
        if y is None or y.numel() != x.numel() or not y.is_floating_point() or not y.numel():
            continue
        y = y.flatten()
        at = int(y.abs().argmax())
        if not y[at] or not x[at]:
            continue
        factor = float(x[at] / y[at])
        if x.numel() > 1 and bool(((x - factor * y).abs() <= 1e-9 * (factor * y).abs()).all()):
            return other, factor
    return None, None


def _only_in_b(answer, arms_of, left, left_a, sure):
    """The finding where B computes what A does not. sure: no value without a rule has a part in
    that.
    """
    a, b = arms_of
    # what only puts together what was written in pieces has no line of its own
    placed = [v for v in left if v.maker is None or v.maker.name != "assemble"]
    # what a rank adds to a sum is not where it goes wrong, unless it is kept as if it were the sum
    wrong = [v for v in placed if not _is_number(v) and (not v.lead or shared.is_kept(v))]
    first = (wrong or placed or left)[0]
    op = first.maker
    begins = [v for v in left if v.maker is None and not _is_number(v)]
    if begins and b.ranks > a.ranks and shared.shares_of(begins, a):
        op = _first_reader(begins[0])
        why = "the ranks' shares, together, are not what A has"
        answer.finding = _row(op, BEYOND, None, why)
        return
    if begins:
        answer.notes.append("the arms do not start from equal values: B has some that A has not")
        return
    short = op.name.split(".")[-2] if "." in op.name else op.name
    if short in arms.DRAWS:
        answer.notes.append("B draws other numbers than A (%s at %s)" % (op.name, op.site))
        return
    if not sure:
        answer.notes.append("an operation without a rule stands between the arms' values")
        return
    if any(v.weak and not v.data.is_floating_point() for v in left[:1]):
        answer.notes.append("%s at %s decides by rounded numbers" % (op.name, op.site))
        return
    other, factor = _multiple(first, left_a) if op.members is not None else (None, None)
    other = other or _nearest(first, left_a)
    times = None
    if other is not None:
        away = (first.exact.flatten() - other.exact.flatten()).abs()
        away = torch.where(first.exact.flatten() == other.exact.flatten(), 0.0, away)
        allowed = 2 * (first.error + other.error.reshape(first.error.shape)).flatten()
        times = _times(away, allowed)
    place = other or (left_a[0] if left_a and left_a[0].maker else None)
    why = "in float64, too, nothing that A computes is equal to it: another function, not rounding"
    if factor is not None:
        why = "it is %.6g times what A has there" % factor
    if b.ranks > 1 and first.lead and shared.is_kept(first):
        why = "each rank keeps what it made of its own share here; nothing adds the shares up"
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
    for why in (shared.comparable(a, b), a.alone and "A: " + a.alone, b.alone and "B: " + b.alone):
        if why:
            answer.notes.append(why)
    if answer.notes:
        return answer
    for name, arm in (("A", a), ("B", b)):
        if arm.gap:
            answer.notes.append("%s: %s" % (name, arm.gap))
        arms.in_float64(arm, pairing.find if pairing else (lambda value: None))
        pairing = pairing or Pairing(arm)
        for number, why in sorted(arm.unknown.items())[:3]:
            op = arm.operations[number]
            answer.notes.append("%s: no rule for %s at %s" % (name, why, op.site))
    shared.meet(a, b)
    shared.meet_calls(a, b)
    shared.meet_calls(b, a)
    shared.meet_ends(a, b)
    shared.meet_ends(b, a)
    left, left_a = unexplained(b), unexplained(a)
    hidden = any(v.exact is None for v in left + left_a)
    sure, earliest = proven(a, b) if hidden else (left, None)
    if left:
        _only_in_b(answer, (a, b), sure or left, left_a, bool(sure))
        if (
            answer.finding
            and b.ranks > 1
            and shared.alike(b.operations[answer.finding["number"]], b)
        ):
            answer.notes.append(
                "all ranks of B have the same values there: the same share of the data?"
            )
    if answer.finding and earliest is not None and earliest is not sure[0]:
        answer.notes.append(
            "it may begin earlier, at %s (%s): values of A of that size have no rule"
            % (earliest.maker.site, earliest.maker.name)
        )
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
        elif value.part is not None and value.match is None:
            found = _judge_part(value, value.part)
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
