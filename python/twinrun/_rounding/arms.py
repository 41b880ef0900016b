# SPDX-License-Identifier: Apache-2.0
"""One arm in higher precision: every recorded operation again in float64, from what was there
before the first, with a bound on what float64 itself loses.
"""

import torch

import bounds
import fused
import ranks
from bounds import TINY, U, Unknown
from recording import assemble

DRAWS = """normal_ uniform_ bernoulli_ random_ exponential_ rand randn randint randperm multinomial
    native_dropout bernoulli normal poisson geometric_ cauchy_ log_normal_""".split()


def wide(data):
    """A tensor in float64 with no error; other types as they are."""
    return data.double() if data.is_floating_point() else data.clone()


def carrying(data, error):
    data = wide(data)
    if data.is_floating_point():
        data._error = error if error is not None else torch.zeros_like(data)
    return data


def function(name):
    """The operation of PyTorch that a recording calls `aten.add.Tensor`."""
    space, packet, overload = name.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, space), packet), overload)
    except (AttributeError, RuntimeError):
        raise Unknown(name) from None


def inner_unit(op):
    """The unit roundoff within an operation, and its smallest normal number: PyTorch sums half
    types in float32; what a fused operation keeps between its pieces is promised nowhere (and some
    do round it), so it may be of the type of the result.
    """
    types = [v.data.dtype for v in op.outs if v.data.is_floating_point()]
    types = types or [v.data.dtype for v in op.inputs if v.data.is_floating_point()]
    kind = max(types, key=lambda t: U.get(t, 1.0)) if types else torch.float32
    if kind not in U:
        raise Unknown(str(kind))
    short = op.name.split(".")[1] if "." in op.name else op.name
    sums = short in bounds.SUMS or short in bounds.MOVES or short in fused.PRIMITIVE
    if sums and U[kind] > U[torch.float32]:
        kind = torch.float32
    return kind


def run(op, of, unit, tiny):
    """What op gives for the tensors of(Value), in float64 with bounds, one for each of op.outs."""
    if op.name == "assemble":
        result = assemble(op.args, of)
        errors = assemble(op.args, lambda v: bounds.error_of(of(v)))
        return [carrying(result, errors if result.is_floating_point() else None)]
    if op.members is not None:
        found = ranks.run(op, of, unit, tiny)
        return [
            carrying(t, e if v.data.is_floating_point() else None)
            if v.data.is_floating_point()
            else v.data.clone()
            for v, (t, e) in zip(op.outs, found)
        ]
    short = op.name.split(".")[1]
    if short in DRAWS:
        return _drawn(op, short, of)
    if short == "copy_":
        source = of(op.args[1]) if hasattr(op.args[1], "slot") else torch.tensor(op.args[1])
        shape = op.outs[0].data.shape
        whole = source.expand(shape)
        if not op.outs[0].data.is_floating_point():
            return [op.outs[0].data.clone()]
        error = bounds.error_of(source).expand(shape) if source.is_floating_point() else None
        return [carrying(whole, None if error is None else error.clone())]
    if short in ("fill_", "zero_"):
        return [carrying(op.outs[0].data, None)]
    func = function(op.name)
    args, kwargs = _given(op.args, of), {k: _given(v, of) for k, v in op.kwargs.items()}
    # a number may be rounded to the type of the tensors before it is used
    numbers = unit
    if unit != U[torch.float64]:
        numbers = max([unit, *(U[v.data.dtype] for v in op.outs if v.data.dtype in U)])
    kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "layout", "pin_memory")}
    with torch.no_grad():
        if short.startswith("_foreach_"):
            made = _for_each(short, func, args, kwargs, unit, tiny, numbers)
        elif func._schema.is_mutable:
            made = _changed(short, func, args, kwargs, unit, tiny, numbers)
        else:
            made = bounds._flat(_run(func, args, kwargs, unit, tiny, numbers))
    if len(made) < len(op.outs):
        raise Unknown(op.name)
    return _as_recorded(op, made)


def _run(func, args, kwargs, unit, tiny, numbers):
    mode = bounds.Bounds(unit, tiny, numbers)
    kwargs = {k: bounds._wide(v) for k, v in kwargs.items() if k != "dtype" or _fraction(v)}
    try:
        return mode.run(func, args, kwargs)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, KeyError) as error:
        raise Unknown("%s: %s" % (func, str(error).split("\n")[0])) from None


def _fraction(value):
    return not isinstance(value, torch.dtype) or value.is_floating_point


def _given(value, of):
    if isinstance(value, (list, tuple)):
        return [_given(v, of) for v in value]
    return of(value) if hasattr(value, "slot") else value


def _as_recorded(op, made):
    """Decisions (comparisons, indices) are those of the run itself."""
    found = []
    for value, result in zip(op.outs, made):
        if not value.data.is_floating_point():
            found.append(value.data.clone())
            continue
        if result is None or tuple(result.shape) != tuple(value.data.shape):
            raise Unknown(op.name)
        found.append(carrying(result, bounds.error_of(result)))
    return found


def _drawn(op, short, of):
    if short != "native_dropout":
        return [carrying(v.data, None) for v in op.outs]
    x, kept = of(op.args[0]), op.outs[1].data
    scale = kept.double() / (1 - op.args[1]) if op.args[1] < 1 else torch.zeros_like(x)
    return [carrying(x * scale, bounds.error_of(x) * scale), kept.clone()]


def _functional(short, overload):
    packet = getattr(torch.ops.aten, short.rstrip("_"), None)
    if packet is None or overload not in packet.overloads():
        raise Unknown(short)
    return getattr(packet, overload)


def _without_out(short, func):
    """The overload that returns what func writes into its `out`."""
    wanted = [(a.name, str(a.type)) for a in func._schema.arguments if a.name != "out"]
    packet = getattr(torch.ops.aten, short)
    for name in packet.overloads():
        other = getattr(packet, name)
        if [(a.name, str(a.type)) for a in other._schema.arguments] == wanted:
            return other
    raise Unknown(short)


def _changed(short, func, args, kwargs, unit, tiny, numbers):
    if kwargs.get("out") is not None:
        kwargs = {name: value for name, value in kwargs.items() if name != "out"}
        return bounds._flat(_run(_without_out(short, func), args, kwargs, unit, tiny, numbers))
    if not short.endswith("_"):
        raise Unknown(short)
    plain = _functional(short, func._overloadname)
    return bounds._flat(_run(plain, args, kwargs, unit, tiny, numbers))


FOREACH = {
    "Scalar": ("Scalar", "Tensor", "default"),
    "List": ("Tensor", "default"),
    "ScalarList": ("Scalar", "Tensor", "default"),
    "Tensor": ("Tensor",),
    "default": ("default", "Tensor"),
}


def _for_each(short, func, args, kwargs, unit, tiny, numbers):
    name = short[len("_foreach_") :].rstrip("_")
    if name == "copy":
        return [carrying(s, bounds.error_of(s)) for s in args[1]]
    if name == "zero":
        return [torch.zeros_like(t) for t in args[0]]
    if name == "norm":
        name = "linalg_vector_norm"
    packet = getattr(torch.ops.aten, name, None)
    names = [n for n in FOREACH.get(func._overloadname, ()) if packet and n in packet.overloads()]
    if not names:
        raise Unknown(short)
    made = []
    for i in range(len(args[0])):
        own = [a[i] if isinstance(a, list) else a for a in args]
        overload = names[0]
        if func._overloadname == "ScalarList" and name in ("addcmul", "addcdiv"):
            overload, own, more = "default", own[:3], {"value": own[3]}
        elif func._overloadname == "Scalar" and name in ("addcmul", "addcdiv"):
            more = {"value": own[3]} if len(own) > 3 else {}
            overload, own = "default", own[:3]
        else:
            more = dict(kwargs)
        made += bounds._flat(_run(getattr(packet, overload), own, more, unit, tiny, numbers))
    return made


def in_float64(arm, met=lambda value: None):
    """Sets exact and error of every value. A value whose operation has no rule, or that is made
    from one, keeps None. met(value): called for each, before anything is made from it.
    """
    for value in arm.values:
        if value.maker is None:
            value.exact, value.error = wide(value.data), None
            if value.data.is_floating_point():
                value.error = torch.zeros_like(value.exact)
            met(value)
    arm.unknown = {}
    for op in arm.operations:
        if any(v.exact is None for v in op.inputs):
            continue
        try:
            made = run(
                op, lambda v: carrying(v.exact, v.error), U[torch.float64], TINY[torch.float64]
            )
        except Unknown as error:
            arm.unknown[op.number] = str(error)
            continue
        decides = any(v.error is not None and bool(v.error.any()) for v in op.inputs)
        for value, t in zip(op.outs, made):
            value.exact = t
            value.error = bounds.error_of(t) if t.is_floating_point() else None
            # what a comparison of rounded numbers decides is not followed, only copied
            value.weak = decides and not t.is_floating_point()
            met(value)
    return arm
