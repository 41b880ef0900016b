# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training whose bits do not depend on the number of ranks."""

import contextlib
import hashlib
import warnings

import torch
import torch.distributed as dist

from .. import seeds
from . import _data, _library, _reduce


class _Flat:
    """Tensors of one type, side by side in one stretch of memory, for each microbatch
    of this rank.
    """

    def __init__(self, like):
        self.places, at = [], 0
        for tensor in like:
            self.places.append((at, at + tensor.numel(), tensor.shape))
            at += tensor.numel()
        self.numel, self.dtype = at, like[0].dtype
        self.rows, self.extents = [], {}  # of each row; the extents of its blocks

    def pieces(self, row):
        return [row[first:last].view(shape) for first, last, shape in self.places]

    def row(self, number):
        while len(self.rows) <= number:
            self.rows.append(torch.empty(self.numel, dtype=self.dtype))
        return self.rows[number]

    def fill(self, number, tensors, block):
        """Makes row `number` of tensors (None: zeros), and the extents of its blocks while what is
        copied is in the cache.
        """
        row = self.row(number)
        extents = self.extents[number] = _reduce.no_extents(row, block)
        at = row.data_ptr(), extents[0].data_ptr(), extents[1].data_ptr()
        for (first, last, shape), tensor in zip(self.places, tensors):
            if tensor is None:
                row[first:last].zero_()  # as no extents has it
                continue
            near = tensor.detach().to("cpu", self.dtype).contiguous()
            _library.call(
                "twin_fixed_take",
                _library.code(self.dtype),
                near.data_ptr(),
                last - first,
                first,
                block,
                *at,
            )


class _Buffers:
    """What buffers of one type become at the end of a step. Floating ones: the mean, each element
    in units of its own, so that what is the same in all microbatches stays so. Others: what all
    agree on.
    """

    def __init__(self, buffers, values, held, group):
        """values: of each buffer, after each of this rank's microbatches; held: how many of these
        each rank has.
        """
        self._flat, self._buffers, self._group = _Flat(buffers), buffers, group
        self._rows = [torch.cat([b.detach().reshape(-1).cpu() for b in row]) for row in values]
        self._sum = None
        if self._flat.dtype in _library._TYPES:
            self._sum = _reduce.Sum(
                self._rows,
                torch.empty(self._flat.numel, dtype=self._flat.dtype),
                held,
                sum(held),
                group,
                1,
            )
        elif self._flat.dtype.is_floating_point or self._flat.dtype.is_complex:
            raise TypeError(
                "ExactDDP: a buffer of %s changed; its mean over the microbatches is not defined"
                % self._flat.dtype
            )

    def start(self):
        if self._sum:
            self._sum.start()
        else:
            lowest = torch.iinfo(torch.int64).min + 1
            self._both = torch.full((2, self._flat.numel), lowest, dtype=torch.int64)
            for row in self._rows:
                self._both = torch.maximum(
                    self._both, torch.stack([row.to(torch.int64), -row.to(torch.int64)])
                )
            self._known = self._group.reduce(self._both, dist.ReduceOp.MAX)
        return self

    def wait(self):
        if self._sum:
            self._sum.wait()
        elif self._known:
            self._known()
            self._known = None

    def settle(self):
        self.wait()
        if self._sum:
            self._sum.settle()
        elif not torch.equal(self._both[0], -self._both[1]):
            raise RuntimeError(
                "ExactDDP: microbatches changed a buffer of %s in different ways; only floating-point ones have a mean"
                % self._flat.dtype
            )

    def pieces(self, memory):
        return self._sum.pieces(memory) if self._sum else ()

    def end(self):
        if self._sum:
            self._sum.end()

    def store(self):
        result = self._sum.out if self._sum else self._both[0].to(self._flat.dtype)
        for b, piece in zip(self._buffers, self._flat.pieces(result)):
            b.copy_(piece)


def _by_type(tensors):
    """The numbers of the tensors of each type."""
    groups = {}
    for number, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(number)
    return groups


def _same(x, y):
    """Bit for bit."""
    x, y = (t.contiguous().reshape(-1).view(torch.uint8) for t in (x, y))
    return torch.equal(x, y)


def _environment():
    """What the bits of a microbatch depend on besides the job."""
    capability = getattr(torch.backends, "cpu", None) and torch.backends.cpu.get_cpu_capability()
    return {
        "torch": str(torch.__version__),
        "threads": torch.get_num_threads(),
        "cpu": capability or "unknown",
    }


class ExactDDP(torch.nn.Module):
    """Data-parallel training, as DistributedDataParallel, with the same bits on any number of
    ranks.

        sampler = DeterministicSampler(data, batch=480, microbatches=24)     # of a global batch, whatever the number of ranks
        loader = DataLoader(data, batch_sampler=sampler)
        ddp = ExactDDP(net, microbatches=24)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for epoch in range(sampler.epoch, 10):
            for share in sampler.steps(loader):          # one step: this rank's microbatches, by number
                for number, (x, y) in share:
                    with ddp.microbatch(number):
                        loss_of(ddp(x), y).backward()
                ddp.reduce()                             # .grad: the mean over all 24, the same on every rank
                optimizer.step()
                sampler.done()
            save({"ddp": ddp.state_dict(), "optimizer": optimizer.state_dict(), "sampler":
            sampler.state_dict()})

    Every global batch is cut into the same `microbatches`. A rank computes some of them, at most
    ceil(microbatches / ranks), each by itself, and `reduce` makes the exact mean of all their
    gradients. Within `microbatch` the generators (random, NumPy, torch on CPU and the model's GPUs)
    start from (seed, step, number), and buffers as the step found them; `reduce` gives every
    floating buffer that was changed, so the running statistics of BatchNorm, the mean over the
    microbatches: one update for a step. Others that were changed (num_batches_tracked) must have
    been changed alike by all.

    Parameters and buffers begin as rank 0's. `seed`: default, the branch "training" of seed_all's
    root. `group`: the ranks, default all. Checkpoints (`state_dict`) may go on with another number
    of ranks; they keep the number of microbatches, the seed and the step, which must be the same.
    `block`: see exact_allreduce.

    What stays with the job: a microbatch must itself repeat, which takes the same kind of
    processor, versions of the libraries and number of threads (torchrun sets OMP_NUM_THREADS=1 only
    for more than one rank: call torch.set_num_threads), and operations without races; optimizer
    steps that do not depend on the rank. Parameters on the CPU, or a GPU (they then cross over to
    the host).
    """

    def __init__(self, module, microbatches, *, seed=None, group=None, block=1024):
        super().__init__()
        self.module = module
        self.microbatches = microbatches
        self.block = block
        self.step = 0
        self._group = _reduce.Group(group)
        self._seed = _data.branch(seed, "training")
        if not isinstance(microbatches, int) or not 1 <= microbatches <= 1 << 20:
            raise ValueError("ExactDDP: microbatches=%r; expected 1 to 2**20" % (microbatches,))
        self._parameters_of = [p for p in module.parameters() if p.requires_grad]
        if not self._parameters_of:
            raise ValueError("ExactDDP: no parameter of the module asks for a gradient")
        for p in self._parameters_of:
            if p.dtype not in _library._TYPES or p.layout != torch.strided:
                raise TypeError(
                    "ExactDDP: a parameter is %s, %s; expected dense float64, float32, float16 or bfloat16"
                    % (p.dtype, p.layout)
                )
        self._gradients = {
            dtype: (numbers, _Flat([self._parameters_of[n] for n in numbers]))
            for dtype, numbers in _by_type(self._parameters_of).items()
        }
        self._memory = None  # where the step before added up
        self._before = None  # the buffers as the step found them
        self._inside = None  # the microbatch that is being computed
        self._expected = []  # numbers of the buffers that some rank changed in the step before
        self._clear()
        self._agree()
        with torch.no_grad():
            for tensor in list(module.parameters()) + list(module.buffers()):
                self._group.broadcast(tensor.detach())

    def _clear(self):
        # numbers of this step's microbatches, in the order in which they were computed
        self._done = []
        self._has_gradient = torch.zeros(len(self._parameters_of), dtype=torch.int64)
        # number of a buffer: its values after each microbatch that changed it, by microbatch
        self._changed = {}

    def _agree(self):
        """Raises on every rank unless all have the same model, and so on."""
        names = [
            "%s %s %s %d" % (name, p.dtype, list(p.shape), p.requires_grad)
            for name, p in self.module.named_parameters()
        ]
        names += [
            "%s %s %s" % (name, b.dtype, list(b.shape)) for name, b in self.module.named_buffers()
        ]
        environment = _environment()
        parts = [
            ("model", "\n".join(names)),
            ("number of microbatches", self.microbatches),
            ("seed", self._seed),
            ("block", self.block),
            ("version of torch", environment["torch"]),
            ("kind of processor", environment["cpu"]),
        ]
        mine = [
            int.from_bytes(hashlib.blake2b(str(part).encode(), digest_size=7).digest(), "little")
            for _, part in parts
        ]
        every = self._group.gather(mine + [environment["threads"]])
        for rank, theirs in enumerate(every):
            for (name, _), a, b in zip(parts, every[0], theirs):
                if a != b:
                    raise ValueError("ExactDDP: rank %d has another %s than rank 0" % (rank, name))
            if theirs[-1] != every[0][-1]:
                raise ValueError(
                    "ExactDDP: rank %d computes on %d threads and rank 0 on %d, which may change bits: call "
                    "torch.set_num_threads with the same number" % (rank, theirs[-1], every[0][-1])
                )

    @property
    def mine(self):
        """The microbatches that this rank computes."""
        return _data.share(self.microbatches, self._group.rank, self._group.world)

    def _held(self):
        """How many microbatches each rank computes."""
        world = self._group.world
        return [len(_data.share(self.microbatches, rank, world)) for rank in range(world)]

    def forward(self, *args, **kwargs):
        if self.training and torch.is_grad_enabled() and self._inside is None:
            raise RuntimeError(
                "ExactDDP: in training the model is called within `with ddp.microbatch(number):`"
            )
        return self.module(*args, **kwargs)

    # ---- a microbatch

    @contextlib.contextmanager
    def microbatch(self, number):
        """The forward and backward pass of one microbatch of the step; each of `mine` once, in any
        order.
        """
        if number not in self.mine:
            raise ValueError(
                "microbatch %r does not belong to rank %d, which has %s"
                % (number, self._group.rank, list(self.mine))
            )
        if self._inside is not None or number in self._done:
            raise RuntimeError(
                "microbatch %d was begun %s"
                % (
                    number,
                    "within another"
                    if self._inside is not None
                    else "twice in one step: call reduce() at its end",
                )
            )
        if self._before is None:
            self._before = [b.detach().clone() for b in self.module.buffers()]
        for p in self._parameters_of:
            p.grad = None
        self._inside = number
        try:
            with self._generators(number):
                yield
            self._take_gradients(len(self._done))
            self._take_buffers(number)
            self._done.append(number)
        finally:
            self._inside = None

    def _generators(self, number):
        here = seeds.seed(self._seed, step=self.step, microbatch=number)
        devices = sorted({p.device.index for p in self._parameters_of if p.device.type == "cuda"})
        return _data.generators_from(here, devices)

    def _take_gradients(self, place):
        for numbers, flat in self._gradients.values():
            gradients = [self._parameters_of[number].grad for number in numbers]
            if any(one is not None and one.layout != torch.strided for one in gradients):
                raise TypeError("ExactDDP: a sparse gradient; expected a dense one (sparse=False)")
            flat.fill(place, gradients, self.block)
            for number, gradient in zip(numbers, gradients):
                if gradient is not None:
                    self._has_gradient[number] = 1
                self._parameters_of[number].grad = None

    def _take_buffers(self, microbatch):
        """Sets those that were changed back, for the next microbatch. (The version of a tensor does
        not tell: BatchNorm's kernel leaves it alone.)
        """
        buffers = list(self.module.buffers())
        if [(b.shape, b.dtype) for b in buffers] != [(b.shape, b.dtype) for b in self._before]:
            raise RuntimeError(
                "ExactDDP: the shapes or types of the model's buffers changed in a microbatch"
            )
        with torch.no_grad():
            for number, (b, before) in enumerate(zip(buffers, self._before)):
                if not _same(b.detach(), before):
                    self._changed.setdefault(number, {})[microbatch] = b.detach().clone()
                    b.copy_(before)

    # ---- the end of a step

    def reduce(self):
        """Ends the step, on every rank: each parameter's `.grad` becomes the mean of the
        microbatches' gradients, rounded once (None where no microbatch gave one), and buffers what
        they became. Raises on every rank when one did not compute all its share.
        """
        buffers = list(self.module.buffers())
        changed = torch.zeros(len(buffers), dtype=torch.int64)
        for number in self._changed:
            changed[number] = 1
        missing = sorted(set(self.mine) - set(self._done))
        facts = torch.cat(
            [
                torch.tensor([self._group.rank + 1 if missing else 0, self.step, -self.step]),
                self._has_gradient,
                changed,
            ]
        )
        known = self._group.reduce(facts, dist.ReduceOp.MAX)
        # Each exchange costs a wait, so what is needed goes at once: the buffers, too, that changed
        # in the step before.
        gradients, expected = self._gradient_sums(), self._buffer_sums(buffers, self._expected)
        for one in gradients + expected:
            one.start()
        for one in gradients + expected:
            one.wait()
        known()
        facts = facts.tolist()
        self._refuse(missing, *facts[:3])
        count = 3 + len(self._parameters_of)
        really = [number for number, any_did in enumerate(facts[count:]) if any_did]
        if really != self._expected:
            self._expected, expected = (
                really,
                [one.start() for one in self._buffer_sums(buffers, really)],
            )
        memory, self._memory = self._memory or _reduce.Memory(), None
        _reduce.finish_all(gradients + expected, memory)
        self._memory = memory  # for the next step; not after an error
        self._set_gradients(gradients, facts[3:count])
        with torch.no_grad():
            for one in expected:
                one.store()
        self.step += 1
        self._before = None
        self._clear()

    def _refuse(self, missing, incomplete, latest, earliest):
        if missing:
            raise RuntimeError(
                "ExactDDP: rank %d did not compute microbatch %s of this step"
                % (self._group.rank, missing)
            )
        if incomplete:
            raise RuntimeError(
                "ExactDDP: rank %d did not compute all its microbatches of this step"
                % (incomplete - 1)
            )
        if latest != -earliest:
            raise RuntimeError(
                "ExactDDP: this rank is at step %d, others at %d to %d"
                % (self.step, -earliest, latest)
            )

    def _gradient_sums(self):
        return [
            _reduce.Sum(
                [flat.row(place) for place in range(len(self._done))],
                torch.empty(flat.numel, dtype=flat.dtype),
                self._held(),
                self.microbatches,
                self._group,
                self.block,
                [flat.extents[place] for place in range(len(self._done))],
            )
            for _, flat in self._gradients.values()
        ]

    def _set_gradients(self, sums, wanted):
        for one, (numbers, flat) in zip(sums, self._gradients.values()):
            for number, piece in zip(numbers, flat.pieces(one.out)):
                p = self._parameters_of[number]
                p.grad = piece.to(p.device) if wanted[number] else None

    def _buffer_sums(self, buffers, numbers):
        return [
            _Buffers(
                [buffers[numbers[i]] for i in same],
                [[self._after(numbers[i], microbatch) for i in same] for microbatch in self._done],
                self._held(),
                self._group,
            )
            for same in _by_type([buffers[n] for n in numbers]).values()
        ]

    def _after(self, number, microbatch):
        """A buffer after one of this rank's microbatches."""
        return self._changed.get(number, {}).get(microbatch, self._before[number])

    # ---- checkpoints

    def get_extra_state(self):
        if self._done or self._inside is not None:
            raise RuntimeError(
                "ExactDDP: a checkpoint in the middle of a step; call state_dict() after reduce() and the optimizer's step"
            )
        return {
            "version": 1,
            "microbatches": self.microbatches,
            "seed": self._seed,
            "step": self.step,
            "environment": _environment(),
        }

    def set_extra_state(self, state):
        if not isinstance(state, dict) or state.get("version") != 1:
            raise ValueError("this is not a state of ExactDDP, version 1: %r" % (state,))
        for name, ours in (("microbatches", self.microbatches), ("seed", self._seed)):
            if state[name] != ours:
                raise ValueError(
                    "the checkpoint was trained with %s=%r and this is %r: it would not be continued but another training"
                    % (name, state[name], ours)
                )
        now = _environment()
        for name, value in state["environment"].items():
            if value != now.get(name):
                warnings.warn(
                    "ExactDDP: the checkpoint was trained with %s=%s and this is %s, which may change bits"
                    % (name, value, now.get(name))
                )
        self.step = state["step"]
