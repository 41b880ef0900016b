# SPDX-License-Identifier: Apache-2.0
"""Values that several of the other arm are together: rows that ranks have of a batch, what each adds
to a sum, the losses of microbatches.

Rows that make a value of the other arm stand for it, and so do ends that nobody reads. What a rank
adds to a sum does not: it has to lead to a result that the other arm has. It only does not count as
the place of a bug (`lead`).
"""

import torch

from pairing import is_weak, same_quantity
from recording import Value

LOST = 2.0**-50  # of a value: what float64 loses when parts are put together
REDUCING = ("allreduce", "reduce_scatter", "allgather")
CALLS = 4096  # beyond, the calls of a line are not put together
SHARE = 16  # bytes: less may be found anywhere
ROWS = 4096  # beyond, an order of rows is not looked for


def meet_ends(other, arm):
    """Ends of one arm that are a value of the other in parts: numbers that nobody reads, of one line that ran several
    times (the losses of microbatches, or of ranks), whose sum or mean is one that the other has and
    this has not. Nothing that is written in place: weights that differ between ranks may have those
    of the other arm as a mean.
    """
    groups = {}
    for value in arm.values:
        ends = not value.readers and value.match is None and value.exact is not None
        ends = ends and value.maker is not None and value.data.numel() == 1
        if ends and value.data.is_floating_point() and not _in_place(value.maker):
            key = (value.maker.name, value.maker.site, value.slot, tuple(value.data.shape))
            groups.setdefault(key, []).append(value)
    lacking = [v for v in other.values if v.match is None and v.exact is not None and v.maker]
    for parts in (g for g in groups.values() if len(g) > 1):
        whole = Value(None, 0, parts[0].data, -1)
        for share in (1.0, 1.0 / len(parts)):
            whole.exact = sum(v.exact for v in parts) * share
            whole.error = sum(v.error for v in parts) * share + LOST * whole.exact.abs()
            same = [v for v in lacking if v.exact.numel() == whole.exact.numel()]
            same = [v for v in same if same_quantity(v, whole) and not is_weak(whole, v)]
            if same:
                same[0].part = parts[0]
                for value in parts:
                    value.part = same[0]
                break


def _in_place(op):
    return op.name.split(".")[-2].endswith("_") or "out" in op.kwargs


def is_kept(value):
    """Is it written in place, and read by nobody in this step: a weight?"""
    return value.maker is not None and not value.readers and _in_place(value.maker)


def comparable(a, b):
    """None, or why the ranks of two arms cannot be held against each other."""
    if a.ranks == b.ranks or 1 in (a.ranks, b.ranks):
        return None
    return "A has %d ranks and B %d: expected as many, or one of them alone" % (a.ranks, b.ranks)


def _siblings(arm):
    """What all ranks made in the same call of the same line, in the order of ranks: lists of Values.
    Not what lies behind a collective that adds up.
    """
    seen, calls, leaves, mixed = {}, {}, {}, set()
    for op in arm.operations:
        name = op.name.split(".")[-2] if "." in op.name else op.name
        behind = any(v.number in mixed for v in op.inputs)
        if behind or op.members is not None and any(r in name for r in REDUCING):
            mixed.update(v.number for v in op.outs)
            continue
        key = (op.rank, op.name, op.site)
        seen[key] = seen.get(key, 0) + 1
        for value in op.outs:
            place = (op.name, op.site, seen[key], value.slot)
            calls.setdefault(place, []).append(value)
    for value in arm.values:
        if value.maker is None:
            leaves.setdefault(value.rank, []).append(value)
    if len({len(own) for own in leaves.values()}) == 1:
        calls.update((("leaf", i), list(them)) for i, them in enumerate(zip(*leaves.values())))
    arm.behind = mixed
    whole = [sorted(them, key=lambda v: v.rank) for them in calls.values()]
    return [them for them in whole if len(them) == arm.ranks and _fit(them)]


def _fit(values):
    """Are they of one type, and of one shape but for the first dimension?"""
    shapes = {(v.data.dtype, v.data.dim(), tuple(v.data.shape[1:])) for v in values}
    return len(shapes) == 1 and all(v.exact is not None for v in values)


def _composed(exact, error, like):
    value = Value(None, 0, like.data, -1)
    value.exact, value.error = exact, error
    return value


def _in_order(values, order):
    """The rows of all ranks as one value, in an order: of rank after rank, or of given places."""

    def joined(tensors):
        rows = torch.cat(tensors)
        return rows if order is None else rows[order]

    exact = joined([v.exact for v in values])
    if values[0].error is None:
        return _composed(exact, None, values[0])
    return _composed(exact, joined([v.error for v in values]), values[0])


def _taking_turns(values):
    """The order of rows that were dealt to the ranks in turns; None where they have not as many."""
    counts = {v.data.shape[0] for v in values}
    if len(counts) != 1:
        return None
    each = counts.pop()
    return torch.arange(each * len(values)).reshape(len(values), each).t().flatten()


def _order_like(values, whole):
    """The order in which the rows of the ranks are those of a value, bit for bit; None: there is none."""
    rows = torch.cat([v.data for v in values])
    if whole.data.shape != rows.shape or len(rows) > ROWS or whole.data.dtype != rows.dtype:
        return None

    def texts(tensor):
        flat = tensor.reshape(len(tensor), -1).contiguous()
        return [row.view(torch.uint8).numpy().tobytes() for row in flat]

    places = {}
    for i, text in enumerate(texts(rows)):
        places.setdefault(text, []).append(i)
    try:
        return torch.tensor([places[text].pop(0) for text in texts(whole.data)])
    except (KeyError, IndexError):
        return None


def _scaled(value, factor):
    error = value.error * factor + LOST * (value.exact * factor).abs()
    return _composed(value.exact * factor, error, value)


def _find(value, classes):
    """The values of the other arm that it is; of a composed one."""
    found = classes.get(value.exact.numel(), ())
    return [v for v in found if same_quantity(v, value)]


def _meet_rows(values, classes, orders):
    """The other arm's values that the ranks' rows are together."""
    for order in orders:
        if order is not None and len(order) != sum(v.data.shape[0] for v in values):
            continue
        whole = _in_order(values, order)
        found = _find(whole, classes)
        if found:
            return whole, found
    exact = values[0].error is None or not any(bool(v.error.any()) for v in values)
    count = sum(v.data.numel() for v in values)
    for other in classes.get(count, ()) if exact else ():
        order = _order_like(values, other)
        if order is not None:
            orders.append(order)
            return _in_order(values, order), [other]
    return None, []


def _leads(values, classes, orders):
    """Are they what the ranks add to a value of the other arm, or a multiple of its rows?"""
    if values[0].error is None:
        return []
    many = float(len(values))
    if values[0].exact.dim():
        for order in orders:
            if order is None or len(order) == sum(v.data.shape[0] for v in values):
                whole = _in_order(values, order)
                found = [v for f in (many, 1 / many) for v in _find(_scaled(whole, f), classes)]
                if found:
                    return found
    if len({tuple(v.data.shape) for v in values}) != 1:
        return []
    total = _composed(sum(v.exact for v in values), sum(v.error for v in values), values[0])
    return [v for f in (1.0, 1 / many, many) for v in _find(_scaled(total, f), classes)]


def meet(a, b):
    """Sets `part` and `lead` between an arm of several ranks and one of one."""
    if a.ranks == b.ranks or comparable(a, b):
        return
    many, one = (a, b) if a.ranks > 1 else (b, a)
    classes = {}
    for value in one.values:
        if value.exact is not None:
            classes.setdefault(value.data.numel(), []).append(value)
    orders = [None]
    for values in _siblings(many):
        if values[0].data.dim():
            turns = _taking_turns(values)
            tried = [*orders, *([] if turns is None else [turns])]
            known = len(tried)
            whole, found = _meet_rows(values, classes, tried)
            orders += tried[known:]
            if found:
                _stand_for(values, whole, found)
                continue
        for other in _leads(
            values, classes, [*orders, _taking_turns(values)] if values[0].data.dim() else orders
        ):
            other.lead = True
            for value in values:
                value.lead = True


def _stand_for(values, whole, found):
    own = values[0].maker.name if values[0].maker else ""

    def likeness(other):
        return (
            other.data.dtype == values[0].data.dtype,
            (other.maker.name if other.maker else "") == own,
        )

    best = max(found, key=likeness)
    weak = whole.error is not None and is_weak(whole, best)
    for value in values:
        value.part, value.weak = best, value.weak or weak
    for other in found:
        if other.part is None:
            other.part = values[0]


def meet_calls(other, arm):
    """Calls of one line whose results, one behind the other, are a value of the other arm: the
    tokens that a sampler computes one by one, the rows of microbatches. Each of them stands for its
    part.
    """
    calls, classes = {}, {}
    for value in arm.values:
        if value.exact is None or value.maker is None or not value.maker.site:
            continue
        place = (value.rank, value.maker.name, value.maker.site, value.slot)
        calls.setdefault((place, value.data.dtype, value.data.dim()), []).append(value)
    for value in other.values:
        if value.exact is not None:
            classes.setdefault(value.data.numel(), []).append(value)
    for values in calls.values():
        lacking = any(v.match is None and v.part is None for v in values)
        if lacking and 1 < len(values) <= CALLS and values[0].data.dim():
            _meet_behind(values, classes)


def _meet_behind(values, classes):
    for at in range(values[0].data.dim()):
        rest = {(*v.data.shape[:at], *v.data.shape[at + 1 :]) for v in values}
        if len(rest) != 1:
            continue
        exact = torch.cat([v.exact for v in values], at)
        real = values[0].error is not None
        error = torch.cat([v.error for v in values], at) if real else None
        whole = _composed(exact, error, values[0])
        found = _find(whole, classes)
        if found:
            _stand_for(values, whole, found)
            return


def alike(op, arm):
    """Did each rank make the same values here, bit for bit, though none has spoken to another?"""
    if any(v.number in getattr(arm, "behind", ()) for v in op.outs):
        return False
    calls = {}
    for other in arm.operations:
        if other.name == op.name and other.site == op.site:
            calls.setdefault(other.rank, []).append(other)
    at = calls[op.rank].index(op)
    datas = [own[at].outs[0].data for own in calls.values() if at < len(own) and own[at].outs]
    return len(datas) == arm.ranks and all(torch.equal(datas[0], d) for d in datas[1:])


def shares_of(leaves, a):
    """Are they all a piece of something that was there before in A, as ranks take of a batch?"""
    whole = [_bytes(v) for v in a.values if v.maker is None]

    def within(value):
        text, size = _bytes(value), value.data.element_size()
        places = (one.find(text) for one in whole if len(text) >= SHARE)
        return any(at >= 0 and at % size == 0 for at in places)

    return bool(leaves) and all(within(value) for value in leaves)


def _bytes(value):
    flat = value.data.contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def counted(arm):
    """How many operations made rows of the other arm's values, and how many only add to a sum."""
    rows = sum(any(v.part is not None for v in op.outs) for op in arm.operations)
    adds = sum(any(v.lead and v.part is None for v in op.outs) for op in arm.operations)
    return {"rows": rows, "adds": adds}
