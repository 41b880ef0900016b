# SPDX-License-Identifier: Apache-2.0
"""Sums over ranks that do not depend on who holds what: numbers become integers, which torch.distributed adds (twin/reduce.h)."""
import ctypes

import torch
import torch.distributed as dist

from . import _library

_CHUNK = 1 << 18  # elements that are on their way at a time: 2 MiB of integers


class Group:
    """The ranks that take part, and where a collective wants its memory. One process without torch.distributed is a group too."""

    def __init__(self, group=None):
        self._group = group
        connected = dist.is_available() and dist.is_initialized()
        if group is not None and not connected:
            raise ValueError("a group was given, but torch.distributed is not initialised")
        self.world = dist.get_world_size(group) if connected else 1
        self.rank = dist.get_rank(group) if connected else 0
        if self.rank < 0:
            raise ValueError("this process does not belong to the group")
        # NCCL takes memory of the GPU only. The integers are made on the host and go there for the collective.
        nccl = connected and self.world > 1 and "nccl" in str(dist.get_backend(group))
        self._device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    def reduce(self, tensor, op):
        """Begins it; call what comes back to have it done."""
        if self.world == 1:
            return lambda: None
        there = tensor.to(self._device)
        work = dist.all_reduce(there, op=op, group=self._group, async_op=True)

        def done():
            work.wait()
            if there is not tensor:
                tensor.copy_(there)
        return done

    def maximum(self, tensor):
        self.reduce(tensor, dist.ReduceOp.MAX)()
        return tensor

    def gather(self, numbers):
        """The same count of whole numbers from each rank."""
        mine = torch.tensor(numbers, dtype=torch.int64).to(self._device)
        if self.world == 1:
            return [mine.tolist()]
        every = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine, group=self._group)
        return [one.tolist() for one in every]

    def broadcast(self, tensor):
        """Rank 0's, in place."""
        if self.world == 1:
            return
        there = tensor.to(self._device)
        first = dist.get_global_rank(self._group, 0) if self._group is not None else 0
        dist.broadcast(there, first, group=self._group)
        if there is not tensor:
            tensor.copy_(there)


def fixed_sum(rows, out, total, divisor, group, block):
    """out = the sum of all ranks' rows / divisor, rounded once. `rows`: this rank's contributions, flat like `out`; `total`: of all
    ranks. Everything but the rows must agree between the ranks."""
    code, n = _library.code(out.dtype), out.numel()
    if n == 0:
        return
    if group.world == 1:
        pointers = (ctypes.c_void_p * max(len(rows), 1))(*[row.data_ptr() for row in rows])
        _library.call("twin_fixed_sum", code, pointers, len(rows), n, block, total, divisor, out.data_ptr())
        return
    blocks = -(-n // block)
    wide = out.dtype == torch.float64  # exponents of 16 bits, which collectives do not know: they travel in 32
    exponents = torch.zeros(blocks, dtype=torch.int16 if wide else torch.uint8)

    def largest(numbers):
        travelling = numbers.to(torch.int32) if wide else numbers
        numbers.copy_(group.maximum(travelling))

    for row in rows:
        _library.call("twin_fixed_exponents", code, row.data_ptr(), n, block, exponents.data_ptr())
    largest(exponents)
    specials = torch.empty(0)
    if _library.count("twin_fixed_flagged", code, exponents.data_ptr(), blocks):
        size = _library.count("twin_fixed_specials_count", code, block, exponents.data_ptr(), blocks)
        specials = torch.zeros(size, dtype=exponents.dtype)
        for row in rows:
            _library.call("twin_fixed_specials", code, row.data_ptr(), n, block, exponents.data_ptr(), specials.data_ptr())
        largest(specials)
    _add_chunks(rows, out, total, divisor, group, block, exponents, specials)


def _add_chunks(rows, out, total, divisor, group, block, exponents, specials):
    """While one piece is on its way, the next is made."""
    code, n, size = _library.code(out.dtype), out.numel(), out.element_size()
    chunk = max(_CHUNK // block, 1) * block
    sums = [torch.empty(min(chunk, n), dtype=torch.int64) for _ in range(2)]
    at_special, pending = 0, None

    def finish(integers, first, m, places, done):
        done()
        _library.call("twin_fixed_round", code, integers.data_ptr(), m, block, total, divisor, places[0], places[1],
                      out.data_ptr() + first * size)

    for number, first in enumerate(range(0, n, chunk)):
        m = min(chunk, n - first)
        blocks = -(-m // block)
        mine = exponents.data_ptr() + first // block * exponents.element_size()
        places = mine, specials.data_ptr() + at_special * specials.element_size() if specials.numel() else None
        if specials.numel():
            at_special += _library.count("twin_fixed_specials_count", code, block, mine, blocks)
        integers = sums[number % 2][:m].zero_()
        for row in rows:
            _library.call("twin_fixed_add", code, row.data_ptr() + first * size, m, block, total, places[0], places[1], integers.data_ptr())
        done = group.reduce(integers, dist.ReduceOp.SUM)
        if pending:
            finish(*pending)
        pending = integers, first, m, places, done
    finish(*pending)


# ---- the call

_NAMES = "type", "dimensions", "elements", "shape", "contributions", "mean", "block"


def _agree(group, held, described, trouble):
    """Raises on every rank when one of them was called wrongly, or they do not mean the same sum; never on some of them only."""
    every = group.gather([1 if trouble else 0, held] + described)
    if trouble:
        raise trouble
    broken = [rank for rank, theirs in enumerate(every) if theirs[0]]
    if broken:
        raise ValueError("exact_allreduce: rank %d was called wrongly and raised; so does this one" % broken[0])
    for rank, theirs in enumerate(every):
        for name, a, b in zip(_NAMES, every[0][2:], theirs[2:]):
            if a != b:
                raise ValueError("exact_allreduce: the ranks disagree about the %s: %s, but %s (this is rank %d)" % (
                    "shape" if name in ("dimensions", "elements") else name, _say(0, every[0]), _say(rank, theirs), group.rank))
    return sum(theirs[1] for theirs in every)


def _say(rank, numbers):
    described = dict(zip(_NAMES, numbers[2:]))
    types = {code: dtype for dtype, code in _library._TYPES.items()}
    return "rank %d has %d elements in %d dimensions of %s, contributions=%s, mean=%s, block=%d" % (
        rank, described["elements"], described["dimensions"], types.get(described["type"]), described["contributions"] or None,
        bool(described["mean"]), described["block"])


def _fold_shape(shape):
    """A number for a shape: 63 bits, of which two different ones are unlikely to be equal."""
    value = 0xCBF29CE484222325
    for size in shape:
        value = ((value ^ size) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value >> 1


def _prepare(tensor, contributions, out, block):
    rows = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    if not rows and out is None:
        raise ValueError("exact_allreduce: a rank without a contribution must give out=, for the shape and type")
    for row in rows + ([] if out is None else [out]):
        _library.check("exact_allreduce", "out" if row is out else "tensor", row)
    like = out if out is not None else rows[0]
    for row in rows:
        if row.shape != like.shape or row.dtype != like.dtype:
            raise ValueError("exact_allreduce: %s %s beside %s %s on one rank; expected one shape and type" % (
                row.dtype, list(row.shape), like.dtype, list(like.shape)))
    if contributions is not None and not 1 <= contributions <= 1 << 31:
        raise ValueError("exact_allreduce: contributions=%r; expected 1 to 2**31" % (contributions,))
    if not isinstance(block, int) or not 1 <= block <= 1 << 30:
        raise ValueError("exact_allreduce: block=%r; expected 1 to 2**30" % (block,))
    return rows, like


def _allreduce(tensor, contributions, group, mean, block, out):
    trouble, rows, described = None, [], [0] * len(_NAMES)
    try:
        _library._load()
        rows, like = _prepare(tensor, contributions, out, block)
        described = [_library.code(like.dtype), like.dim(), like.numel(), _fold_shape(like.shape), contributions or 0, int(bool(mean)), block]
    except Exception as error:  # the others wait in the gathering: they must hear of it
        trouble = error
    total = _agree(group, len(rows), described, trouble)
    if contributions is not None and total != contributions:
        raise ValueError("exact_allreduce: contributions=%d, but the ranks gave %d in all" % (contributions, total))
    if total == 0:
        raise ValueError("exact_allreduce: no rank has a contribution")
    if out is None:
        out = torch.empty(like.shape, dtype=like.dtype)
    lying = [row.detach().contiguous() for row in rows]
    apart = out.is_contiguous() and not any(_overlap(row, out) for row in lying)
    flat = out.detach() if apart else torch.empty(like.shape, dtype=like.dtype)
    fixed_sum(lying, flat, total, total if mean else 1, group, block)
    if not apart:
        out.detach().copy_(flat)
    return out, total


def _overlap(x, y):
    return x.data_ptr() < y.data_ptr() + y.numel() * y.element_size() and y.data_ptr() < x.data_ptr() + x.numel() * x.element_size()


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, contributions, group, mean, block, *rows):
        out, total = _allreduce(list(rows), contributions, group, mean, block, None)
        ctx.how = group, mean, block, total, len(rows)
        return out

    @staticmethod
    def backward(ctx, grad):
        group, mean, block, total, count = ctx.how
        grad = _AllReduce.apply(None, group, False, block, grad)  # every rank's result hangs on each contribution
        if mean:
            grad = grad / total
        return (None, None, None, None) + (grad,) * count


def exact_allreduce(tensor, contributions=None, *, group=None, mean=False, out=None, block=1024):
    """The sum over all ranks' tensors, the same bits on every rank and for any number of ranks that share the same contributions.

    `tensor`: this rank's contribution, or a list of them (none at all with `out=`). `contributions`: how many there are on all ranks
    together: with the same ones the result does not depend on how many ranks hold them, which has which, the backend's algorithm
    or the order of arrival. Default: counted. `mean`: their mean, rounded once. `out`: where to put it (it may be one of the
    contributions); default, a new tensor. float64, float32, float16, bfloat16; gloo, MPI, or NCCL, whose integers make a way over
    the GPU.

    Within each `block` of elements numbers count in units of the largest one: with G contributions and B = 62 - ceil(log2(G)) the
    error of a sum is at most G * 2**-B of the largest element of its block, plus the one rounding of the result. block=1 gives each
    element a unit of its own, for 9 bytes an element sent in place of 8. A NaN or infinity reaches its own element only.

    A call that is wrong on one rank, or not the same on all, raises on every rank. Differentiable without `out`: the gradient is
    the sum of the ranks' gradients, as for torch.distributed.nn.functional.all_reduce; all ranks must then go backward.
    """
    where = Group(group)
    rows = tensor if isinstance(tensor, (list, tuple)) else [tensor]
    if out is None and torch.is_grad_enabled() and any(isinstance(row, torch.Tensor) and row.requires_grad for row in rows):
        return _AllReduce.apply(contributions, where, mean, block, *rows)
    return _allreduce(tensor, contributions, where, mean, block, out)[0]
