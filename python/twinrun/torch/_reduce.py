# SPDX-License-Identifier: Apache-2.0
"""Sums over ranks that do not depend on who holds what: numbers become integers, which
torch.distributed adds (twin/reduce.h).
"""

import ctypes

import torch
import torch.distributed as dist

from . import _library

_CHUNK = 1 << 20  # elements that are on their way at a time: 8 MiB of integers,
_OWNERS_CHUNK = 1 << 21  # and by owners: sent and received, at most 32 MiB
# With fewer elements to an owner integers go by one all-reduce: many messages would cost more than
# the bytes that they save (4 ranks on 2 cores, 466,000 to each: no gain).
_OWNERS_FROM = 1 << 19
_OWNERS_BLOCK = 64  # elements; narrower blocks are not worth packing
_NUMBERS, _RESULTS = 0x7477, 0x7478  # tags of our messages


class Group:
    """The ranks that take part, and where a collective wants its memory. One process without
    torch.distributed is a group too.
    """

    def __init__(self, group=None):
        self._group = group
        connected = dist.is_available() and dist.is_initialized()
        if group is not None and not connected:
            raise ValueError("a group was given, but torch.distributed is not initialised")
        self.world = dist.get_world_size(group) if connected else 1
        self.rank = dist.get_rank(group) if connected else 0
        if self.rank < 0:
            raise ValueError("this process does not belong to the group")
        # NCCL takes memory of the GPU only. The integers are made on the host and go there for the
        # collective.
        backend = str(dist.get_backend(group)) if connected and self.world > 1 else ""
        nccl = "nccl" in backend
        # Messages between two ranks go as they are posted; elsewhere that is not known.
        self.has_messages = backend == "gloo"
        self._device = (
            torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")
        )

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

    def _number(self, rank):
        """By which torch.distributed knows a rank of the group."""
        return dist.get_global_rank(self._group, rank) if self._group is not None else rank

    def send(self, tensor, rank, tag):
        """Begins it; of what comes back, call wait()."""
        return dist.isend(tensor, self._number(rank), self._group, tag)

    def receive(self, tensor, rank, tag):
        return dist.irecv(tensor, self._number(rank), self._group, tag)

    def others(self, step=1):
        """All other ranks, the next one first, or the one before (step=-1): so that not all turn to
        the same one at first.
        """
        return [(self.rank + step * i) % self.world for i in range(1, self.world)]

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
        dist.broadcast(there, self._number(0), group=self._group)
        if there is not tensor:
            tensor.copy_(there)


class Memory:
    """Where pieces are added up, for one call of finish_all or for one after the other: two
    stretches, since one piece is made while another is on its way. Fresh pages for each piece would
    cost more than zeroing the ones that are there.
    """

    def __init__(self):
        self._next, self._other = (torch.empty(0, dtype=torch.uint8) for _ in range(2))

    def bytes(self, count):
        """Good until the call after the next one."""
        if self._next.numel() < count:
            self._next = torch.empty(count, dtype=torch.uint8)
        self._next, self._other = self._other, self._next
        return self._other[:count]

    def zeros(self, count):
        """As bytes: so many int64."""
        return self.bytes(8 * count).view(torch.int64).zero_()


def no_extents(flat, block):
    """The exponents and depths of blocks in which nothing is yet. Those of f64 have 16 bits, which
    collectives do not know: they travel in 32.
    """
    dtype = torch.int16 if flat.dtype == torch.float64 else torch.uint8
    return torch.zeros((2, -(-flat.numel() // block)), dtype=dtype)


class Sum:
    """out = the sum of all ranks' rows / divisor, rounded once, in steps of which several sums may
    be under way together.

    `rows`: this rank's contributions, flat like `out`; `held`: how many each rank has. All but the
    rows must agree between the ranks. `extents`: of each row, where they are known. Call `start`; then `finish_all` with every sum that was
    started, in the same order on every rank.
    """

    def __init__(self, rows, out, held, divisor, group, block, extents=None):
        self._rows, self.out, self._divisor, self._group, self._block = (
            [row.view(-1) for row in rows],
            out,
            divisor,
            group,
            block,
        )
        self._held, self._total, self._most, self._extents = held, sum(held), max(held), extents
        self._code, self._n = _library.code(out.dtype), out.numel()
        self._exponents = self._depths = self._specials = None
        self._started, self._last = None, []
        self._by_owners = (
            group.has_messages and self._n >= _OWNERS_FROM * group.world and block >= _OWNERS_BLOCK
        )

    def start(self):
        """The largest exponent of each block, and by owners its depth; nothing, where every rank
        sends what it has as it is.
        """
        if self._group.world == 1 or self._n == 0 or (self._by_owners and self._most == 1):
            return self
        lists = no_extents(self.out, self._block)
        if self._extents is None:
            at = [one.data_ptr() for one in lists]
            for row in self._rows:
                _library.call(
                    "twin_fixed_extents", self._code, row.data_ptr(), self._n, self._block, *at
                )
        for one in self._extents or ():
            torch.maximum(lists, one, out=lists)
        self._exponents, self._depths = lists
        self._started = self._largest(lists if self._by_owners else self._exponents)
        return self

    def _largest(self, numbers):
        travelling = numbers.to(torch.int32) if numbers.dtype == torch.int16 else numbers
        done = self._group.reduce(travelling, dist.ReduceOp.MAX)

        def finish():
            done()
            if travelling is not numbers:
                numbers.copy_(travelling)

        return finish

    def wait(self):
        """Until the exponents are known; once."""
        if self._started:
            self._started()
            self._started = None

    def settle(self):
        """Marks NaN and infinities, where there are any."""
        self.wait()
        if self._exponents is None:
            return
        at, blocks = self._exponents.data_ptr(), self._exponents.numel()
        if _library.count("twin_fixed_flagged", self._code, at, blocks):
            size = _library.count("twin_fixed_specials_count", self._code, self._block, at, blocks)
            self._specials = torch.zeros(size, dtype=self._exponents.dtype)
            for row in self._rows:
                _library.call(
                    "twin_fixed_specials",
                    self._code,
                    row.data_ptr(),
                    self._n,
                    self._block,
                    at,
                    self._specials.data_ptr(),
                )
            self._largest(self._specials)()

    def pieces(self, memory):
        """Adds this rank's rows piece by piece and sends them about; gives for each what is to be
        called to have it done. At most two may be under way.
        """
        if self._n == 0:
            return
        if self._group.world == 1:
            self._sum_at_once([row.data_ptr() for row in self._rows], 0, self._n)
            return
        if self._by_owners:
            yield from self._pieces_by_owners(memory)
            return
        chunk, special = max(_CHUNK // self._block, 1) * self._block, 0
        for first in range(0, self._n, chunk):
            m = min(chunk, self._n - first)
            exponents = (
                self._exponents.data_ptr() + first // self._block * self._exponents.element_size()
            )
            specials = None
            if self._specials is not None:
                specials = self._specials.data_ptr() + special * self._specials.element_size()
                special += _library.count(
                    "twin_fixed_specials_count",
                    self._code,
                    self._block,
                    exponents,
                    -(-m // self._block),
                )
            yield self._piece(first * self.out.element_size(), memory.zeros(m), exponents, specials)

    def _piece(self, at, integers, exponents, specials):
        m = integers.numel()
        for row in self._rows:
            _library.call(
                "twin_fixed_add",
                self._code,
                row.data_ptr() + at,
                m,
                self._block,
                self._total,
                exponents,
                specials,
                integers.data_ptr(),
            )
        done = self._group.reduce(integers, dist.ReduceOp.SUM)

        def finish():
            done()
            _library.call(
                "twin_fixed_round",
                self._code,
                integers.data_ptr(),
                m,
                self._block,
                self._total,
                self._divisor,
                exponents,
                specials,
                self.out.data_ptr() + at,
            )

        return finish

    def _sum_at_once(self, rows, first, n):
        """Elements from `first` on of the result; rows: where these elements of each contribution
        lie.
        """
        _library.call(
            "twin_fixed_sum",
            self._code,
            _library.pointers(rows),
            len(rows),
            n,
            self._block,
            self._total,
            self._divisor,
            self._address(self.out, first),
        )

    # ---- by owners

    def _address(self, flat, element):
        return flat.data_ptr() + element * flat.element_size()

    def _part(self, rank, piece, wide):
        """Which elements of a piece a rank owns."""
        blocks = -(-self._n // self._block)
        low, high = (
            min(blocks * k // self._group.world * self._block, self._n) for k in (rank, rank + 1)
        )
        return min(low + piece * wide, high), min(low + (piece + 1) * wide, high)

    def _bytes(self, flat, low, high):
        """Elements of a flat tensor as bytes, which all backends know."""
        return flat[low:high].view(torch.uint8)

    def _wire(self, low):
        """How elements from `low` on travel."""
        block = low // self._block
        wire = _library.Wire(self._code, self._block, self._total, self._most)
        wire.exponents = self._address(self._exponents, block)
        wire.depths = self._address(self._depths, block)
        if self._specials is not None:
            count = _library.count(
                "twin_fixed_specials_count",
                self._code,
                self._block,
                self._exponents.data_ptr(),
                block,
            )
            wire.specials = self._address(self._specials, count)
        return wire

    def _as_it_is(self, rank):
        """Whether what a rank sends is its one contribution."""
        return self._held[rank] == 1

    def _size(self, rank, low, high):
        """Bytes that a rank sends of some elements."""
        if self._held[rank] == 0:
            return 0
        if self._as_it_is(rank):
            return (high - low) * self.out.element_size()
        wire = self._wire(low)
        return _library.count("twin_fixed_packed_bytes", ctypes.byref(wire), high - low)

    def _pieces_by_owners(self, memory):
        """Each rank sends the owners of the parts what it holds of them, in as few bytes as hold
        it; they send the results back.
        """
        group, blocks = self._group, -(-self._n // self._block)
        widest = -(-blocks // group.world) * self._block
        wide = max(_OWNERS_CHUNK // group.world // self._block, 1) * self._block
        for piece in range(-(-widest // wide)):
            parts = [self._part(rank, piece, wide) for rank in range(group.world)]
            yield self._post(memory, parts)

    def _post(self, memory, parts):
        group = self._group
        low, high = parts[group.rank]
        incoming = [(rank, self._size(rank, low, high)) for rank in group.others(-1)]
        outgoing = [(rank, self._size(group.rank, *parts[rank])) for rank in group.others()]
        packed = 0 if self._as_it_is(group.rank) else sum(size for _, size in outgoing)
        # Never none at all: where all are zeros nothing is sent, from an address.
        space = memory.bytes(sum(size for _, size in incoming) + packed + 1)
        at, work, arrived = 0, [], []
        for rank, size in incoming:
            if self._held[rank] and high > low:
                arrived.append((rank, space[at:]))
            if size:
                work.append(group.receive(space[at : at + size], rank, _NUMBERS))
            at += size
        for rank, size in outgoing:
            first, last = parts[rank]
            if not size:
                continue
            if self._as_it_is(group.rank):
                message = self._bytes(self._rows[0], first, last)
            else:
                message = space[at : at + size]
                at += size
                wire = self._wire(first)
                _library.call(
                    "twin_fixed_pack",
                    ctypes.byref(wire),
                    self._mine(first),
                    len(self._rows),
                    last - first,
                    message.data_ptr(),
                )
            work.append(group.send(message, rank, _NUMBERS))

        def finish():
            for one in work:
                one.wait()
            if high > low:
                self._own(low, high, arrived)
            self._tell(parts)

        return finish

    def _mine(self, low):
        return _library.pointers([self._address(row, low) for row in self._rows])

    def _own(self, low, high, arrived):
        """What I own, of my contributions and of what has arrived."""
        rows = [self._address(row, low) for row in self._rows]
        rows += [there.data_ptr() for rank, there in arrived if self._as_it_is(rank)]
        packed = [there.data_ptr() for rank, there in arrived if not self._as_it_is(rank)]
        if self._exponents is None:
            self._sum_at_once(rows, low, high - low)
            return
        wire = self._wire(low)
        _library.call(
            "twin_fixed_finish",
            ctypes.byref(wire),
            _library.pointers(rows),
            len(rows),
            _library.pointers(packed),
            len(packed),
            high - low,
            self._divisor,
            self._address(self.out, low),
        )

    def _tell(self, parts):
        """My results to all others, and theirs to me."""
        group = self._group
        for rank in group.others(-1):
            theirs = self._bytes(self.out, *parts[rank])
            if theirs.numel():
                self._last.append(group.receive(theirs, rank, _RESULTS))
        mine = self._bytes(self.out, *parts[group.rank])
        for rank in group.others() if mine.numel() else ():
            self._last.append(group.send(mine, rank, _RESULTS))

    def end(self):
        """Until all results are here."""
        for one in self._last:
            one.wait()
        self._last = []


def finish_all(sums, memory=None):
    """While one piece is on its way, the next is made. `memory`: a Memory that only these calls
    use; after an error a message may still be on its way in it, and it must not be used again.
    """
    memory = memory or Memory()
    for one in sums:
        one.settle()
    under_way = None
    for one in sums:
        for finish in one.pieces(memory):
            if under_way:
                under_way()
            under_way = finish
    if under_way:
        under_way()
    for one in sums:
        one.end()


# ---- the call

_NAMES = "type", "dimensions", "elements", "shape", "contributions", "mean", "block"


def _agree(group, held, described, trouble):
    """Raises on every rank when one of them was called wrongly, or they do not mean the same sum;
    never on some of them only.
    """
    every = group.gather([1 if trouble else 0, held] + described)
    if trouble:
        raise trouble
    broken = [rank for rank, theirs in enumerate(every) if theirs[0]]
    if broken:
        raise ValueError(
            "exact_allreduce: rank %d was called wrongly and raised; so does this one" % broken[0]
        )
    for rank, theirs in enumerate(every):
        for name, a, b in zip(_NAMES, every[0][2:], theirs[2:]):
            if a != b:
                raise ValueError(
                    "exact_allreduce: the ranks disagree about the %s: %s, but %s (this is rank %d)"
                    % (
                        "shape" if name in ("dimensions", "elements") else name,
                        _say(0, every[0]),
                        _say(rank, theirs),
                        group.rank,
                    )
                )
    return [theirs[1] for theirs in every]


def _say(rank, numbers):
    described = dict(zip(_NAMES, numbers[2:]))
    types = {code: dtype for dtype, code in _library._TYPES.items()}
    return "rank %d has %d elements in %d dimensions of %s, contributions=%s, mean=%s, block=%d" % (
        rank,
        described["elements"],
        described["dimensions"],
        types.get(described["type"]),
        described["contributions"] or None,
        bool(described["mean"]),
        described["block"],
    )


def _fold_shape(shape):
    """A number for a shape: 63 bits, of which two different ones are unlikely to be equal."""
    value = 0xCBF29CE484222325
    for size in shape:
        value = ((value ^ size) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value >> 1


def _prepare(tensor, contributions, out, block):
    rows = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
    if not rows and out is None:
        raise ValueError(
            "exact_allreduce: a rank without a contribution must give out=, for the shape and type"
        )
    for row in rows + ([] if out is None else [out]):
        _library.check("exact_allreduce", "out" if row is out else "tensor", row)
    like = out if out is not None else rows[0]
    for row in rows:
        if row.shape != like.shape or row.dtype != like.dtype:
            raise ValueError(
                "exact_allreduce: %s %s beside %s %s on one rank; expected one shape and type"
                % (row.dtype, list(row.shape), like.dtype, list(like.shape))
            )
    if contributions is not None and not 1 <= contributions <= 1 << 31:
        raise ValueError(
            "exact_allreduce: contributions=%r; expected 1 to 2**31" % (contributions,)
        )
    if not isinstance(block, int) or not 1 <= block <= 1 << 30:
        raise ValueError("exact_allreduce: block=%r; expected 1 to 2**30" % (block,))
    return rows, like


def _allreduce(tensor, contributions, group, mean, block, out):
    trouble, rows, described = None, [], [0] * len(_NAMES)
    try:
        _library._load()
        rows, like = _prepare(tensor, contributions, out, block)
        described = [
            _library.code(like.dtype),
            like.dim(),
            like.numel(),
            _fold_shape(like.shape),
            contributions or 0,
            int(bool(mean)),
            block,
        ]
    except Exception as error:  # the others wait in the gathering: they must hear of it
        trouble = error
    held = _agree(group, len(rows), described, trouble)
    total = sum(held)
    if contributions is not None and total != contributions:
        raise ValueError(
            "exact_allreduce: contributions=%d, but the ranks gave %d in all"
            % (contributions, total)
        )
    if total == 0:
        raise ValueError("exact_allreduce: no rank has a contribution")
    if out is None:
        out = torch.empty(like.shape, dtype=like.dtype)
    lying = [row.detach().contiguous() for row in rows]
    apart = out.is_contiguous() and not any(_overlap(row, out) for row in lying)
    flat = out.detach() if apart else torch.empty(like.shape, dtype=like.dtype)
    finish_all([Sum(lying, flat.view(-1), held, total if mean else 1, group, block).start()])
    if not apart:
        out.detach().copy_(flat)
    return out, total


def _overlap(x, y):
    return (
        x.data_ptr() < y.data_ptr() + y.numel() * y.element_size()
        and y.data_ptr() < x.data_ptr() + x.numel() * x.element_size()
    )


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, contributions, group, mean, block, *rows):
        out, total = _allreduce(list(rows), contributions, group, mean, block, None)
        ctx.how = group, mean, block, total, len(rows)
        return out

    @staticmethod
    def backward(ctx, grad):
        group, mean, block, total, count = ctx.how
        # every rank's result hangs on each contribution
        grad = _AllReduce.apply(None, group, False, block, grad)
        if mean:
            grad = grad / total
        return (None, None, None, None) + (grad,) * count


def exact_allreduce(tensor, contributions=None, *, group=None, mean=False, out=None, block=1024):
    """The sum over all ranks' tensors, the same bits on every rank and for any number of ranks that
    share the same contributions.

    `tensor`: this rank's contribution, or a list of them (none at all with `out=`).
    `contributions`: how many there are on all ranks together: with the same ones the result does
    not depend on how many ranks hold them, which has which, the backend's algorithm or the order of
    arrival. Default: counted. `mean`: their mean, rounded once. `out`: where to put it (it may be
    one of the contributions); default, a new tensor. float64, float32, float16, bfloat16; gloo,
    MPI, or NCCL, whose integers make a way over the GPU.

    Within each `block` of elements numbers count in units of the largest one: with G contributions
    and B = 62 - ceil(log2(G)) the error of a sum is at most G * 2**-B of the largest element of its
    block, plus the one rounding of the result. block=1 gives each element a unit of its own, for 9
    bytes an element sent in place of 8. A NaN or infinity reaches its own element only.

    A call that is wrong on one rank, or not the same on all, raises on every rank. Differentiable
    without `out`: the gradient is the sum of the ranks' gradients, as for
    torch.distributed.nn.functional.all_reduce; all ranks must then go backward.
    """
    where = Group(group)
    rows = tensor if isinstance(tensor, (list, tuple)) else [tensor]
    if (
        out is None
        and torch.is_grad_enabled()
        and any(isinstance(row, torch.Tensor) and row.requires_grad for row in rows)
    ):
        return _AllReduce.apply(contributions, where, mean, block, *rows)
    return _allreduce(tensor, contributions, where, mean, block, out)[0]
