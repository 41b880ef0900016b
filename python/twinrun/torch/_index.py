# SPDX-License-Identifier: Apache-2.0
"""Sums by index that do not depend on the order of the indices: each element of the answer is
rounded once.

Drop-in for torch's functions of the same names. Forward and backward, and the backward of the
backward, add exactly.
"""

import torch

from . import _library


def _add_rows(rows, index, out):
    """out[index[i]] += rows[i], in place; all contiguous."""
    columns = out[:1].numel() if out.size(0) else rows[:1].numel()
    _library.call(
        "twin_index_add",
        _library.code(rows.dtype),
        rows.data_ptr(),
        index.data_ptr(),
        index.numel(),
        columns,
        out.data_ptr(),
        out.size(0),
    )


def _in_range(who, index, size):
    if index.numel():
        low, high = (int(value) for value in torch.aminmax(index))
        if low < 0 or high >= size:
            raise IndexError(
                "%s: index %d; expected 0 to %d" % (who, low if low < 0 else high, size - 1)
            )


def _pair(who, x, y, what):
    _library.check(who, "input", x)
    _library.check(who, what, y)
    if x.dtype != y.dtype:
        raise TypeError(
            "%s: input is %s and %s %s; expected one type" % (who, x.dtype, what, y.dtype)
        )


def _dim(who, dim, x):
    if not isinstance(dim, int) or not -x.dim() <= dim < x.dim():
        raise IndexError("%s: dim %r of a tensor with %d dimensions" % (who, dim, x.dim()))
    return dim % x.dim()


# ---- whole rows


class _IndexAdd(torch.autograd.Function):
    """x: a tensor, or the shape of zeros."""

    @staticmethod
    def forward(ctx, x, dim, index, source):
        ctx.save_for_backward(index)
        ctx.dim, ctx.zeros = dim, not isinstance(x, torch.Tensor)
        if ctx.zeros:
            out = source.new_zeros([x[dim]] + [size for d, size in enumerate(x) if d != dim])
        else:
            out = x.detach().movedim(dim, 0).clone(memory_format=torch.contiguous_format)
        _add_rows(source.detach().movedim(dim, 0).contiguous(), index, out)
        return out.movedim(0, dim).contiguous()

    @staticmethod
    def backward(ctx, grad):
        return (
            None if ctx.zeros else grad,
            None,
            None,
            _IndexSelect.apply(grad, ctx.dim, ctx.saved_tensors[0]),
        )


class _IndexSelect(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, index):
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x.shape
        return x.detach().index_select(dim, index)

    @staticmethod
    def backward(ctx, grad):
        return _IndexAdd.apply(tuple(ctx.shape), ctx.dim, ctx.saved_tensors[0], grad), None, None


def index_add(input, dim, index, source, *, alpha=1):
    """torch.index_add: the rows of `source` along `dim`, added to those of `input` that `index`
    names; each element of the answer is the correctly rounded sum of all that went into it. With an
    `alpha` other than 1 alpha * source is rounded first. Differentiable.
    """
    _pair("index_add", input, source, "source")
    _library.check_index("index_add", index)
    dim = _dim("index_add", dim, input)
    expected = list(input.shape)
    expected[dim] = index.numel()
    if index.dim() != 1 or list(source.shape) != expected:
        raise ValueError(
            "index_add: input %s, dim %d, index %s, source %s; expected index of one dimension and source %s"
            % (list(input.shape), dim, list(index.shape), list(source.shape), expected)
        )
    _in_range("index_add", index, input.size(dim))
    if alpha != 1:
        source = source * alpha
    return _IndexAdd.apply(input, dim, index.to(torch.int64).contiguous(), source)


# ---- single elements


def _flat(shape, dim, index):
    """The place of each of the indices in contiguous memory of that shape."""
    place, stride = torch.zeros_like(index), 1
    for d in range(len(shape) - 1, -1, -1):
        at = (
            index
            if d == dim
            else torch.arange(index.size(d)).reshape(
                [-1 if e == d else 1 for e in range(len(shape))]
            )
        )
        place = place + at * stride
        stride *= shape[d]
    return place.reshape(-1)


class _ScatterAdd(torch.autograd.Function):
    """x: a tensor, or the shape of zeros."""

    @staticmethod
    def forward(ctx, x, dim, index, source):
        ctx.save_for_backward(index)
        ctx.dim, ctx.zeros = dim, not isinstance(x, torch.Tensor)
        out = (
            source.new_zeros(x)
            if ctx.zeros
            else x.detach().clone(memory_format=torch.contiguous_format)
        )
        _add_rows(
            source.detach().reshape(-1),
            index if out.dim() == 1 else _flat(out.shape, dim, index),
            out.reshape(-1),
        )
        return out

    @staticmethod
    def backward(ctx, grad):
        return (
            None if ctx.zeros else grad,
            None,
            None,
            _Gather.apply(grad, ctx.dim, ctx.saved_tensors[0]),
        )


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dim, index):
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x.shape
        return x.detach().gather(dim, index)

    @staticmethod
    def backward(ctx, grad):
        return _ScatterAdd.apply(tuple(ctx.shape), ctx.dim, ctx.saved_tensors[0], grad), None, None


def _names_rows(shape, dim, index):
    """Is it one index for each row, expanded over the other dimensions?"""
    return (
        dim == 0
        and len(shape) > 1
        and list(index.shape[1:]) == list(shape[1:])
        and all(
            stride == 0 or size == 1 for stride, size in zip(index.stride()[1:], index.shape[1:])
        )
    )


def scatter_add(input, dim, index, src):
    """torch.scatter_add: each element of `src` that `index` has one for, added to the element of
    `input` at that index along `dim`; each element of the answer is the correctly rounded sum of
    all that went into it. Differentiable.
    """
    _pair("scatter_add", input, src, "src")
    _library.check_index("scatter_add", index)
    if input.dim() == 0:
        raise ValueError("scatter_add: input has no dimension; reshape it to [1]")
    dim = _dim("scatter_add", dim, input)
    if (
        index.dim() != input.dim()
        or src.dim() != input.dim()
        or any(
            index.size(d) > src.size(d) or (d != dim and index.size(d) > input.size(d))
            for d in range(input.dim())
        )
    ):
        raise ValueError(
            "scatter_add: input %s, dim %d, index %s, src %s; expected as many dimensions each, and an index no larger than src "
            "and, but for dim, than input"
            % (list(input.shape), dim, list(index.shape), list(src.shape))
        )
    _in_range("scatter_add", index, input.size(dim))
    index = index.to(torch.int64)
    for d in range(src.dim()):
        src = src.narrow(d, 0, index.size(d))
    if index.numel() and _names_rows(input.shape, dim, index):
        return _IndexAdd.apply(
            input, 0, index[(slice(None),) + (0,) * (index.dim() - 1)].contiguous(), src
        )
    return _ScatterAdd.apply(input, dim, index.contiguous(), src)


def bincount(input, weights=None, minlength=0):
    """torch.bincount: how often each number comes, or the correctly rounded sum of the weights of
    each. Weights of another type than float32 and float64 are taken as float64, as there.
    Differentiable in the weights.
    """
    if weights is None:
        return torch.bincount(input, minlength=minlength)
    if (
        not isinstance(input, torch.Tensor)
        or input.dtype.is_floating_point
        or input.dtype.is_complex
        or input.dtype == torch.bool
    ):
        raise TypeError(
            "bincount: input must be a tensor of integers, not %s"
            % getattr(input, "dtype", type(input).__name__)
        )
    index = input.to(torch.int64)
    _library.check_index("bincount", index)
    if (
        isinstance(weights, torch.Tensor)
        and not weights.dtype.is_complex
        and weights.dtype not in (torch.float32, torch.float64)
    ):
        weights = weights.to(torch.float64)
    _library.check("bincount", "weights", weights)
    if index.dim() != 1 or weights.shape != index.shape or minlength < 0:
        raise ValueError(
            "bincount: input %s, weights %s, minlength %d; expected one dimension, as many weights, and 0 or more"
            % (list(index.shape), list(weights.shape), minlength)
        )
    size = minlength
    if index.numel():
        low, high = (int(value) for value in torch.aminmax(index))
        if low < 0:
            raise ValueError("bincount: input has %d; expected 0 or more" % low)
        size = max(size, high + 1)
    return _IndexAdd.apply((size,), 0, index.contiguous(), weights)


# ---- tables


def embedding(input, weight, padding_idx=None):
    """torch.nn.functional.embedding whose backward adds exactly: the gradient of each row of
    `weight` is the correctly rounded sum over all places that looked it up. `padding_idx`: its row
    gets no gradient. Differentiable.
    """
    _library.check("embedding", "weight", weight)
    _library.check_index("embedding", input)
    if weight.dim() != 2:
        raise ValueError("embedding: weight %s; expected two dimensions" % list(weight.shape))
    if padding_idx is not None and not -weight.size(0) <= padding_idx < weight.size(0):
        raise ValueError("embedding: padding_idx %d of %d rows" % (padding_idx, weight.size(0)))
    _in_range("embedding", input, weight.size(0))
    index = input.to(torch.int64).reshape(-1)
    rows = _IndexSelect.apply(weight, 0, index)
    # as constants, those rows ask for no gradient
    if padding_idx is not None and weight.requires_grad:
        rows = torch.where(
            (index == padding_idx % weight.size(0)).unsqueeze(1), rows.detach(), rows
        )
    return rows.reshape(list(input.shape) + [weight.size(1)])


class Embedding(torch.nn.Embedding):
    """torch.nn.Embedding whose backward adds exactly; same parameters, same state_dict. Not for
    `max_norm`, `scale_grad_by_freq` and `sparse`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for name in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(self, name):
                raise ValueError(
                    "Embedding: %s=%r is not to be had with exact gradients"
                    % (name, getattr(self, name))
                )

    def forward(self, input):
        return embedding(input, self.weight, self.padding_idx)
