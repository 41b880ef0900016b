# SPDX-License-Identifier: Apache-2.0
"""Sums that are rounded once: the same bits for any order, number of threads and processor."""

import torch

from . import _library


def _arranged(x, dims):
    """x in memory as [outer][n][inner], of which n is summed, without a copy where there is one
    summed stretch.
    """
    shape = list(x.shape)
    if len(dims) == len(shape):  # the order does not matter: as it lies in memory
        x = x.permute(
            sorted(range(len(shape)), key=lambda d: (-x.stride(d), -shape[d]))
        ).contiguous()
        return x, 1, x.numel(), 1
    long = [d for d in range(len(shape)) if shape[d] != 1]
    summed = [d for d in long if d in dims]
    if any(d not in dims for d in long if summed and summed[0] < d < summed[-1]):
        x = x.permute([d for d in range(len(shape)) if d not in dims] + list(dims))
        x, n = x.contiguous(), 1
        for d in dims:
            n *= shape[d]
        return (
            x,
            x.numel() // n if n else _product(shape[d] for d in range(len(shape)) if d not in dims),
            n,
            1,
        )
    first, last = (summed[0], summed[-1]) if summed else (0, -1)
    return (
        x.contiguous(),
        _product(shape[:first]),
        _product(shape[first : last + 1]),
        _product(shape[last + 1 :]),
    )


def _product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, dims, dtype):
        ctx.shape, ctx.dims, ctx.dtype = x.shape, dims, x.dtype
        out = torch.empty([1 if d in dims else size for d, size in enumerate(x.shape)], dtype=dtype)
        lying, outer, n, inner = _arranged(x.detach(), dims)
        _library.call(
            "twin_sum_axis",
            _library.code(x.dtype),
            lying.data_ptr(),
            outer,
            n,
            inner,
            _library.code(dtype),
            out.data_ptr(),
        )
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad.to(ctx.dtype).expand(ctx.shape), None, None


def _dims(who, dim, ndim):
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    dims = []
    for d in dim if isinstance(dim, (tuple, list)) else (dim,):
        if not isinstance(d, int) or not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError("%s: dim %r of a tensor with %d dimensions" % (who, d, ndim))
        if d % max(ndim, 1) in dims:
            raise ValueError("%s: dim %r comes twice" % (who, d))
        dims.append(d % max(ndim, 1))
    return tuple(sorted(dims)) if ndim else ()


def exact_sum(tensor, dim=None, keepdim=False, dtype=None):
    """The sum over all elements, one dimension or several, as torch.sum, but correctly rounded: of
    the exact sum, once.

    The bits depend on the numbers alone, not on their order, threads or processor. `dtype`: of the
    result (default: the tensor's own); the numbers are not rounded to it before, so a float16 sum
    read as float64 has lost nothing. float64, float32, float16, bfloat16 on the CPU. A NaN gives
    NaN, both infinities too; a sum of nothing is +0. Memory is copied only where the summed
    dimensions do not lie next to each other. Differentiable, any number of times.
    """
    _library.check("exact_sum", "tensor", tensor)
    dtype = tensor.dtype if dtype is None else dtype
    if dtype not in _library._TYPES:
        raise TypeError(
            "exact_sum: dtype=%s; expected float64, float32, float16 or bfloat16" % (dtype,)
        )
    dims = _dims("exact_sum", dim, tensor.dim())
    out = _Sum.apply(tensor, dims, dtype)
    return (
        out
        if keepdim
        else out.reshape([size for d, size in enumerate(tensor.shape) if d not in dims])
    )


def _total(name, dtype, *operands):
    lying = [x.detach().contiguous() for x in operands]
    total = _library.Accumulator()
    total.add(name, _library.code(dtype), *([x.data_ptr() for x in lying] + [lying[0].numel()]))
    return total.round(dtype)


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return _total("twin_acc_add_products", x.dtype, x, y)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x


class _Norm2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _total("twin_acc_add_squares", x.dtype, x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0]


def exact_dot(a, b):
    """The sum of the products of the elements of two tensors of one shape and type, correctly
    rounded. Differentiable.
    """
    _library.check("exact_dot", "a", a)
    _library.check("exact_dot", "b", b)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(
            "exact_dot: %s %s and %s %s; expected one shape and type"
            % (a.dtype, list(a.shape), b.dtype, list(b.shape))
        )
    return _Dot.apply(a, b)


def exact_norm2(tensor):
    """The sum of the squares of all elements (the squared norm, not its root), correctly rounded.
    Differentiable.
    """
    _library.check("exact_norm2", "tensor", tensor)
    return _Norm2.apply(tensor)
