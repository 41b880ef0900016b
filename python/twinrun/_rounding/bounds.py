# SPDX-License-Identifier: Apache-2.0
"""Runs an operation in float64 together with a bound on how far rounding can have moved its result.

The standard model: fl(x op y) = (x op y)(1 + d), |d| <= u. A sum of n terms in an order that nobody
knows lies within gamma_n = n u / (1 - n u) of its value, times the sum of the absolute terms
(Higham, Accuracy and Stability of Numerical Algorithms, 3.1 and 4.2); a product of matrices the
same with |A| |B|. An error that came in goes on through what the operation does to it: linearly
through sums and products, else by what the function makes of t + e and t - e.

Fused operations are taken apart by PyTorch's own decompositions, and the pieces bounded. What has
no rule and no decomposition has no bound: Unknown, which is never taken for rounding.
"""

import torch
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

import fused

U = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
# The smallest normal number: below it all digits may be lost, where a processor flushes to zero.
TINY = {
    torch.float64: 2.0**-1022,
    torch.float32: 2.0**-126,
    torch.float16: 2.0**-14,
    torch.bfloat16: 2.0**-126,
}
ULPS = 4  # half ulps of a function such as exp: what vector libraries promise
FAST_ULPS = 40  # of the exp within fused attention (PyTorch's exp_u20)

# Rounded once, or not at all.
EXACT = """add sub rsub mul div neg abs maximum minimum clamp clamp_min clamp_max where relu
    threshold_backward reciprocal floor ceil round trunc sign square""".split()
# Values are only moved.
MOVES = """cat stack clone _to_copy index gather embedding index_select tril triu flip roll
    constant_pad_nd repeat select_backward slice_backward unsqueeze_copy _unsafe_index to contiguous
    view _unsafe_view reshape expand permute transpose t slice select squeeze unsqueeze alias detach
    as_strided split split_with_sizes unbind chunk diagonal amax amin max min copy lift_fresh
    view_copy _reshape_alias narrow masked_select take_along_dim movedim diagonal_backward
    masked_fill fill scatter scalar_tensor_copy""".split()
# Sums of products of what they are given, with weights that are not negative.
SUMS = """mm bmm addmm baddbmm dot mv sum mean cumsum convolution embedding_dense_backward
    index_add scatter_add avg_pool2d avg_pool2d_backward index_put linear addmv addbmm
    _embedding_bag_dense_backward matmul upsample_nearest2d_backward
    upsample_bilinear2d_backward""".split()
CREATES = """arange full ones zeros full_like ones_like zeros_like scalar_tensor eye linspace
    new_zeros new_ones new_full empty_like empty new_empty""".split()


class Unknown(Exception):
    """There is no bound for this operation."""


def _short(func):
    return func._schema.name.split("::")[-1]


def is_real(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def error_of(value):
    """The bound that a tensor carries; zeros where it carries none."""
    error = getattr(value, "_error", None)
    return torch.zeros_like(value) if error is None else error


def _with(value, error):
    # What is not a number says nothing of the error of what is.
    value._error = torch.where(torch.isfinite(value) | ~torch.isnan(error), error.abs(), 0.0)
    return value


def _each(args, change):
    if isinstance(args, (list, tuple)):
        return type(args)(_each(a, change) for a in args)
    return change(args)


def _wide(value):
    """float64 in place of any other type that has a fraction."""
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def _flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _flat(v)]
    return []


def _terms(short, args, result):
    """How many terms a sum has at most."""
    shapes = [list(t.shape) for t in _flat(args) if is_real(t)]
    if short in ("mm", "bmm", "dot", "mv", "linear", "matmul"):
        return shapes[0][-1]
    if short in ("addmm", "baddbmm", "addmv", "addbmm"):
        return shapes[1][-1] + 1
    if short == "convolution":
        count = 1
        for n in shapes[1][1:]:
            count *= n
        return count + 1
    whole = max(_count(s) for s in shapes) if shapes else 1
    if short in ("sum", "mean", "avg_pool2d"):
        return max(1, whole // max(1, result.numel())) + 1
    if short == "cumsum":
        return max(shapes[0] or [1])
    if short.startswith("upsample"):  # of as many places as an element was spread over
        return 4 * max(1, -(-_count(shapes[0]) // result.numel())) + 4
    if short == "avg_pool2d_backward":  # of as many windows as reach an element, and a division
        return _count(args[2]) ** (1 if len(args[2]) > 1 else 2) + 1
    return whole


def _count(shape):
    count = 1
    for n in shape:
        count *= n
    return count


def gamma(terms, unit):
    """n u / (1 - n u); from n u = 1/2 on the model says nothing."""
    return terms * unit / (1 - terms * unit) if terms * unit < 0.5 else float("inf")


class Bounds(TorchDispatchMode):
    """Every operation within gives its value in float64 and a bound for a computation whose unit
    roundoff is `unit` and whose smallest normal number is `tiny`. numbers: the unit to which numbers
    of Python are rounded before they are used.
    """

    def __init__(self, unit, tiny, numbers):
        super().__init__()
        self.unit, self.tiny, self.numbers, self.fast = unit, tiny, numbers, False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.run(func, args, kwargs or {})

    def run(self, func, args, kwargs):
        short = _short(func)
        kwargs = {k: _wide(v) for k, v in kwargs.items()}
        args = _each(args, _wide)
        inputs = [t for t in _flat(args) + _flat(list(kwargs.values())) if is_real(t)]
        if func._schema.is_mutable and short.endswith("_") and not short.startswith("__"):
            return self._in_place(func, short, args, kwargs)
        if short in CREATES or not inputs:
            return self._created(func, args, kwargs)
        own = fused.OWN.get(short)
        if own is not None:
            self.fast = "attention" in short
            with self:
                return own(*args, **kwargs)
        if short in MOVES or all(r.alias_info is not None for r in func._schema.returns):
            return self._moved(func, short, args, kwargs)
        if short in SUMS:
            return self._summed(func, short, args, kwargs)
        if short == "convolution_backward":
            return self._convolution_backward(func, args, kwargs)
        pointwise = torch.Tag.pointwise in func.tags
        if short not in fused.PRIMITIVE and func in decomposition_table:
            if not (pointwise and short in EXACT):
                return self._taken_apart(func, args, kwargs)
        if pointwise:
            return self._pointwise(func, short, args, kwargs)
        if not any(is_real(t) for t in _flat(func(*args, **kwargs))):
            return func(*args, **kwargs)  # argmax and such: of the values
        raise Unknown(short)

    def _taken_apart(self, func, args, kwargs):
        with self:
            result = decomposition_table[func](*args, **kwargs)
        if result is NotImplemented:
            raise Unknown(_short(func))
        return result

    def _in_place(self, func, short, args, kwargs):
        target = args[0]
        if short in ("fill_", "zero_", "copy_"):
            result = func(*args, **kwargs)
            if is_real(target):
                zero = torch.zeros_like(target)
                if short == "copy_" and is_real(args[1]):
                    zero.copy_(error_of(args[1]))
                _with(target, zero)
            return result
        packet = getattr(torch.ops.aten, short[:-1], None)
        name = func._overloadname
        if packet is None or name not in packet.overloads():
            raise Unknown(short)
        made = self.run(getattr(packet, name), args, kwargs)
        target.copy_(made)
        if is_real(target):
            _with(target, error_of(made))
        return target

    def _created(self, func, args, kwargs):
        result = func(*args, **kwargs)
        typed = any(a.name == "dtype" for a in func._schema.arguments)
        if typed and is_real(result) and result.dtype != torch.float64:
            # what no type is said for is of the default one: a number in it would be rounded here
            result = func(*args, **{**kwargs, "dtype": torch.float64})
        unit = self.unit if _short(func) in ("div", "linspace") else 0.0
        if any(type(a) is float for a in (*args, *kwargs.values())):
            unit = max(unit, self.numbers)
        for t in _flat(result):
            if is_real(t):
                _with(t, t.abs() * unit)
        return result

    def _moved(self, func, short, args, kwargs):
        if short in ("view", "_unsafe_view"):
            # what lay in one piece when it ran may not do so here
            result = args[0].reshape(args[1]).clone()
            return _with(result, error_of(args[0]).reshape(args[1]).clone())
        result = func(*args, **kwargs)
        errors = _each(args, lambda a: error_of(a) if is_real(a) else a)
        if short in ("amax", "amin"):
            # both the largest value and the largest error bound what comes out
            moved = torch.ops.aten.amax.default(errors[0], *args[1:], **kwargs)
        elif short in ("max", "min"):
            if len(args) > 1 and not isinstance(args[1], int):
                raise Unknown(short)
            at = () if len(args) == 1 else (args[1], *args[2:])
            moved = torch.max(errors[0], *at)
        else:
            if short in ("masked_fill", "fill", "constant_pad_nd", "scatter"):
                last = {"fill": 1, "scatter": 3}.get(short, 2)
                errors = [
                    0.0 if i == last and not isinstance(a, torch.Tensor) else a
                    for i, a in enumerate(errors)
                ]
            moved = func(*errors, **kwargs)
        for t, e in zip(_flat(result), _flat(moved)):
            if is_real(t):
                _with(t, e)
        return result

    def _summed(self, func, short, args, kwargs):
        result = func(*args, **kwargs)
        absolute = _each(args, lambda a: a.abs() if is_real(a) else a)
        grown = _each(args, lambda a: a.abs() + error_of(a) if is_real(a) else a)
        terms = func(*absolute, **kwargs)
        more = (func(*grown, **kwargs) - terms).clamp_min(0)
        if not any(bool(error_of(a).any()) for a in _flat(args) if is_real(a)):
            more = torch.zeros_like(terms)
        count = _terms(short, args, result)
        extra = 2 if short == "mean" else 0
        extra += 2 * any(isinstance(v, float) for v in (*args, *kwargs.values()))
        error = more + gamma(count + extra, self.unit) * (terms + more)
        error = error + gamma(count, U[torch.float64]) * terms + count * self.tiny
        return _with(result, error)

    def _convolution_backward(self, func, args, kwargs):
        """Three sums of products; an element of each has at most as many as a place of the gradient
        has weights, or a channel of it places.
        """
        result = func(*args, **kwargs)
        terms = func(*_each(args, lambda a: a.abs() if is_real(a) else a), **kwargs)
        grown = func(*_each(args, lambda a: a.abs() + error_of(a) if is_real(a) else a), **kwargs)
        grad, _input, weight = args[:3]
        count = max(weight.numel(), grad.numel() // max(1, grad.shape[1])) + 1
        lost = gamma(count, self.unit) + gamma(count, U[torch.float64])
        for t, absolute, more in zip(result, terms, grown):
            if is_real(t):
                away = (more - absolute).clamp_min(0)
                _with(t, away + lost * (absolute + away) + count * self.tiny)
        return result

    def _pointwise(self, func, short, args, kwargs):
        result = func(*args, **kwargs)
        if not is_real(result):
            return result
        error = torch.zeros_like(result)
        flat = [a for a in _flat(args) if is_real(a)]
        for at, value in enumerate(flat):
            e = error_of(value)
            if not bool((e > 0).any()):
                continue
            near = []
            for sign in (1.0, -1.0):
                moved = iter(range(len(flat)))
                changed = _each(
                    args,
                    lambda a, s=sign, m=moved, i=at, d=e: (
                        a + s * d if is_real(a) and next(m) == i else a
                    ),
                )
                away = (func(*changed, **kwargs) - result).abs()
                away = torch.where(torch.isfinite(result), away, torch.zeros_like(away))
                near.append(away)
            one, other = near
            # outside of where the function is defined, the other side stands for both
            one = torch.where(torch.isnan(one), 4 * other, one)
            other = torch.where(torch.isnan(other), 4 * one, other)
            error = error + 1.05 * torch.maximum(one, other).nan_to_num(nan=float("inf"))
        error = error + self._numbers(func, args, kwargs, result)
        ulps = 1 if short in EXACT else ULPS
        if short in ("where", "neg", "abs", "relu", "maximum", "minimum", "clamp", "clamp_min"):
            ulps = 0
        if short == "div" and (not isinstance(args[1], torch.Tensor) or args[1].dim() == 0):
            ulps = 3  # PyTorch multiplies by the reciprocal of a number
        finite = torch.where(torch.isfinite(result), result.abs(), torch.zeros_like(result))
        if short == "exp" and self.fast:
            ulps = FAST_ULPS
        if short == "erf":
            # polynomials for it are near in absolute terms only
            finite, ulps = torch.ones_like(finite), 2 * ULPS
        rounded = ulps * self.unit * (finite + error) + bool(ulps) * self.tiny
        return _with(result, error + rounded)

    def _numbers(self, func, args, kwargs, result):
        """What it costs that numbers of Python are rounded to the type of the computation."""
        error = 0.0
        for at, value in enumerate(args):
            if type(value) is float and value not in (float("inf"), float("-inf")):
                near = list(args)
                near[at] = value * (1 + self.numbers)
                error = error + (func(*near, **kwargs) - result).abs().nan_to_num(0.0)
        for name, value in kwargs.items():
            if type(value) is float:
                near = {**kwargs, name: value * (1 + self.numbers)}
                error = error + (func(*args, **near) - result).abs().nan_to_num(0.0)
        return error
