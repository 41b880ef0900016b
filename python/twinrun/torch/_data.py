# SPDX-License-Identifier: Apache-2.0
"""Seeds and data order of a PyTorch job from one root number, whatever the number of workers and
ranks, resumable at any step.

    from twinrun.torch import DeterministicSampler, SeededSamples, seed_all

    seed_all(7)
    data = SeededSamples(data)                                     # augmentation that belongs to the sample, not to the worker
    sampler = DeterministicSampler(data, batch=256)                # 256: over all ranks together
    loader = DataLoader(data, batch_sampler=sampler, num_workers=4,
    worker_init_fn=sampler.worker_init_fn)
    for epoch in range(sampler.epoch, 10):
        for x, y in loader:
            train(x, y)
            sampler.done()                                         # trained, not only fetched in advance
        save({"sampler": sampler.state_dict(), ...})

twinrun.seeds has the tree that all of it comes from.
"""

import contextlib
import hashlib
import itertools
import pickle
import random

import torch
import torch.distributed
import torch.utils.data

from .. import seeds

try:
    import numpy
except ImportError:
    numpy = None

_root = None


# The generators behind the functions of `random` and `numpy.random`. Seeding those for a sample or
# a worker is not the job's seeding itself, which is what `twinrun isolate` takes a call of the
# functions for.
_PYTHON = random.getstate.__self__
_NUMPY = numpy.random.get_state.__self__ if numpy is not None else None


def _seed(here, seed_python, seed_numpy, seed_torch):
    """Seeds the generators of this process, each from its own branch of `here`. Returns the seeds
    by generator.
    """
    given = {"python": seeds.seed(here, "python"), "torch": seeds.seed(here, "torch")}
    seed_python(given["python"])
    if seed_numpy:
        given["numpy"] = seeds.seed(here, "numpy")
        seed_numpy([given["numpy"] & 0xFFFFFFFF, given["numpy"] >> 32])
    seed_torch(given["torch"])
    return given


def _seed_quietly(here):
    _seed(here, _PYTHON.seed, _NUMPY and _NUMPY.seed, torch.default_generator.manual_seed)


def seed_all(root, *path, **indices):
    """Seeds `random`, NumPy's global generator and PyTorch's generators of all devices, each from
    its own branch of the tree.

    `root`: 0 to 2**64 - 1; it is also where samplers made afterwards take their order from. With
    only a root all ranks begin alike, as models must; `seed_all(root, rank=r)` sets them apart,
    `seed_all(root, epoch=e)` starts an epoch anew: the place in the tree as in
    `twinrun.seeds.seed`. Returns the seed of each generator, for the log. Not reached from here:
    Python's string hashes (PYTHONHASHSEED, before the start) and generators that the job makes
    itself (give `numpy.random.default_rng` and `torch.Generator.manual_seed` a
    `twinrun.seeds.seed`).
    """
    global _root
    given = _seed(
        seeds.seed(root, *path, **indices),
        random.seed,
        numpy and numpy.random.seed,
        torch.manual_seed,
    )
    _root = root
    return given


def branch(seed, name):
    """The seed given, or that branch of the root."""
    if seed is not None:
        return seed
    if _root is None:
        raise RuntimeError("no seed: call twinrun.torch.seed_all(root) before, or give seed=")
    return seeds.seed(_root, name)


def share(count, rank, world):
    """The part of 0 to count - 1 that falls to a rank: one piece each, as even as can be."""
    return range(count * rank // world, count * (rank + 1) // world)


@contextlib.contextmanager
def generators_from(here, devices=()):
    """The generators of this process, on the CPU and these GPUs, start from `here`, and go on as if
    nothing had been drawn afterwards.
    """
    before = _PYTHON.getstate(), torch.default_generator.get_state(), _NUMPY and _NUMPY.get_state()
    gpus = [
        (torch.cuda.default_generators[device], torch.cuda.get_rng_state(device))
        for device in devices
    ]
    _seed_quietly(here)
    for generator, _ in gpus:
        generator.manual_seed(seeds.seed(here, "torch"))
    try:
        yield
    finally:
        for generator, state in gpus:
            generator.set_state(state)
        _PYTHON.setstate(before[0])
        torch.default_generator.set_state(before[1])
        if _NUMPY:
            _NUMPY.set_state(before[2])


class _Index(int):
    """The number of a sample, and the epoch in which it is asked for: how the epoch reaches workers
    that live for several.
    """

    def __new__(cls, index, epoch):
        self = super().__new__(cls, index)
        self.epoch = epoch
        return self

    def __reduce__(self):
        return _Index, (int(self), self.epoch)


class SeededSamples(torch.utils.data.Dataset):
    """A dataset whose random augmentation depends on root, epoch and sample only: not on the worker
    that loads it, their number, the rank, what was loaded before, or a resume.

    While a sample is loaded, `random`, NumPy's global generator and PyTorch's CPU generator start
    from the sample's own seed, `seed(seed, epoch=e, sample=i)`; afterwards they are as before.
    DeterministicSampler says the epoch; with another sampler set `epoch` before each loop (workers
    that persist do not see that). Costs 0.2 to 0.4 ms a sample, most of it NumPy's.
    """

    def __init__(self, dataset, seed=None):
        self.dataset, self.seed, self.epoch = dataset, branch(seed, "data"), 0

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        with generators_from(
            seeds.seed(self.seed, epoch=getattr(index, "epoch", self.epoch), sample=index)
        ):
            return self.dataset[int(index)]


class DeterministicSampler(torch.utils.data.Sampler):
    """Batches for `DataLoader(..., batch_sampler=...)`: the same global batches in the same order
    for any number of ranks.

    `samples`: the dataset, or how many samples it has. `batch`: size of the global batch, which the
    ranks share as evenly as it can be (a rank's part is then batch // world or one more). `seed`:
    default, the branch "data" of seed_all's root. `rank`, `world`: default, those of
    torch.distributed where it is initialised. `shuffle=False`: 0, 1, 2... `drop_last`: without the
    short batch at the end of an epoch. `microbatches`: for ExactDDP, cuts each global batch into so
    many pieces whatever the number of ranks, and gives this rank's one by one; `steps` then tells
    which.

    `step` is the number of batches trained, over all epochs: `done()` adds one, checkpoints keep
    it, loops begin there and run to the end of the epoch. A job that never calls `done()` gets one
    epoch for each loop that it runs to the end.
    """

    _SAME = "samples", "batch", "seed", "shuffle", "drop_last"

    def __init__(
        self,
        samples,
        batch,
        *,
        seed=None,
        rank=None,
        world=None,
        shuffle=True,
        drop_last=False,
        microbatches=None,
    ):
        self._tells_epoch = isinstance(samples, SeededSamples)
        self._order = seeds.Order(
            len(samples) if hasattr(samples, "__len__") else samples,
            batch,
            branch(seed, "data"),
            shuffle,
            drop_last,
        )
        connected = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank = rank if rank is not None else torch.distributed.get_rank() if connected else 0
        self.world = (
            world if world is not None else torch.distributed.get_world_size() if connected else 1
        )
        if not 0 <= self.rank < self.world:
            raise ValueError("the rank must be 0 to %d, not %r" % (self.world - 1, self.rank))
        if microbatches is not None and (not isinstance(microbatches, int) or microbatches < 1):
            raise ValueError(
                "microbatches must be a whole number from 1 on, not %r" % (microbatches,)
            )
        self.microbatches = microbatches
        order, parts = self._order, microbatches or self.world
        smallest = order.batch if drop_last else order.samples - (order.steps - 1) * order.batch
        if smallest < parts:
            raise ValueError(
                "a batch of %d samples cannot be shared by %d %s: take a larger batch%s"
                % (
                    smallest,
                    parts,
                    "microbatches" if microbatches else "ranks",
                    ""
                    if smallest == order.batch
                    else ", or drop_last=True for the short one at the end of an epoch",
                )
            )
        self.step = 0
        self._begun = None  # step at which the latest loop began
        self._given = False  # it has handed out a batch
        self._ended = False  # it has handed out its last

    @property
    def seed(self):
        return self._order.seed

    @property
    def epoch(self):
        """The epoch of the next batch to be trained."""
        return self.step // self._order.steps

    @property
    def mine(self):
        """The microbatches that this rank computes at each step."""
        return share(self.microbatches, self.rank, self.world)

    def __len__(self):
        """Batches (with microbatches: those of this rank) of a whole epoch."""
        return self._order.steps * (len(self.mine) if self.microbatches else 1)

    def set_epoch(self, epoch):
        """Goes to the start of an epoch; within the epoch, after a resume, it stays where it is."""
        if epoch != self.epoch:
            self._move(epoch * self._order.steps)

    def done(self):
        """One more batch is trained."""
        self.step += 1

    def indices(self, step, microbatch=None):
        """What this rank takes at a step, counted over all epochs; or what belongs to one of the
        microbatches.
        """
        if (microbatch is None) != (self.microbatches is None):
            raise ValueError(
                "a microbatch must be named if, and only if, the sampler has microbatches"
            )
        taken = self._order.take(
            step,
            *((self.rank, self.world) if microbatch is None else (microbatch, self.microbatches)),
        )
        if not self._tells_epoch:
            return taken
        epoch = step // self._order.steps
        return [_Index(i, epoch) for i in taken]

    def __iter__(self):
        # the job does not count: after a whole loop comes the next epoch
        if self._ended and self.step == self._begun:
            self.step = self._end(self._begun)
        self._begun, self._given, self._ended = self.step, False, False
        return self._batches(self.step)

    def _batches(self, first):
        for step in range(first, self._end(first)):
            for microbatch in self.mine if self.microbatches else (None,):
                self._given = True
                yield self.indices(step, microbatch)
        self._ended = self._begun == first

    def steps(self, loader):
        """The steps left of the epoch, for a sampler with microbatches: each gives (number, batch)
        for the microbatches of this rank, of which there may be none. `loader`: the DataLoader that
        this sampler is in. Take all of a step before the next one.
        """
        if self.microbatches is None:
            raise ValueError("steps() is for a sampler with microbatches=")
        batches, first = iter(loader), self.step
        for _ in range(first, self._end(first)):
            taken = []
            yield self._numbered(batches, taken)
            if len(taken) != len(self.mine):
                raise RuntimeError(
                    "a step was left after %d of the %d microbatches of this rank"
                    % (len(taken), len(self.mine))
                )
        if next(batches, None) is not None:  # also lets the loader end
            raise RuntimeError(
                "the loader has more batches than this sampler's epoch: is the sampler its batch_sampler?"
            )

    def _numbered(self, batches, taken):
        for number in self.mine:
            try:
                batch = next(batches)
            except StopIteration:
                raise RuntimeError(
                    "the loader ended before this sampler's epoch: is the sampler its batch_sampler?"
                ) from None
            taken.append(number)
            yield number, batch

    def _end(self, step):
        return (step // self._order.steps + 1) * self._order.steps

    def _move(self, step):
        self.step, self._begun, self._given, self._ended = step, None, False, False

    def worker_init_fn(self, worker):
        """For DataLoader: seeds a worker's generators from root, step at which the loop began, rank
        and worker. What a worker then draws depends on which samples it gets, so on the number of
        workers and ranks: SeededSamples does not.
        """
        _seed_quietly(seeds.seed(self.seed, step=self.step, rank=self.rank, worker=worker))

    def state_dict(self):
        """Where the training is. RuntimeError in a loop in which `done()` was not called: fetched
        is not trained.
        """
        if self._given and self.step == self._begun:
            raise RuntimeError(
                "where is the training? The loader fetches batches in advance: call the sampler's done() after each "
                "step that was trained, and state_dict() after the first"
            )
        state = {name: getattr(self._order, name) for name in self._SAME}
        state.update(version=1, step=self.step)
        return state

    def load_state_dict(self, state):
        """Goes on from there: the next loop gives what is left of its epoch. The number of ranks
        may be another.
        """
        if state.get("version") != 1:
            raise ValueError(
                "this is not a state of DeterministicSampler, version 1: %r" % (state,)
            )
        for name in self._SAME:
            if state[name] != getattr(self._order, name):
                raise ValueError(
                    "the checkpoint's order has %s=%r and this one %s=%r: it would not be continued but another"
                    % (name, state[name], name, getattr(self._order, name))
                )
        self._move(state["step"])


def _leaves(value, place):
    """(place, type, bytes) of every tensor, array and other value in a batch."""
    if isinstance(value, torch.Tensor):
        flat = (
            value.detach()
            .resolve_conj()
            .resolve_neg()
            .cpu()
            .contiguous()
            .reshape(-1)
            .view(torch.uint8)
        )
        yield (
            place,
            "%s %s" % (value.dtype, list(value.shape)),
            flat.numpy() if numpy is not None else bytes(flat.tolist()),
        )
    elif numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind != "O":
        yield place, "%s %s" % (value.dtype, list(value.shape)), value.tobytes()
    elif isinstance(value, dict):
        yield place, "keys", pickle.dumps(list(value))
        for key in value:
            yield from _leaves(value[key], "%s[%r]" % (place, key))
    elif isinstance(value, (list, tuple)):
        yield place, "%s of %d" % (type(value).__name__, len(value)), b""
        for i, part in enumerate(value):
            yield from _leaves(part, "%s[%d]" % (place, i))
    else:
        yield place, type(value).__name__, pickle.dumps(value)


def check_loader(make, batches=None):
    """Runs a data pipeline twice, without a model: None when both gave the same batches bit for
    bit, else a sentence that says where they first part.

    `make()` seeds what it wants to and returns a new loader, or any iterable of batches; it is
    called twice. `batches`: stop after so many. Two runs in one process share string hashes,
    threads and caches: `twinrun check` makes whole runs.
    """

    def run():
        for number, batch in enumerate(itertools.islice(make(), batches)):
            yield [
                (place, kind, hashlib.blake2b(data, digest_size=16).digest())
                for place, kind, data in _leaves(batch, "batch %d" % number)
            ]

    first, count = list(run()), 0
    for count, again in enumerate(run(), 1):
        if count > len(first):
            return "the first run ended after %d batches, the second went on" % len(first)
        for one, other in zip(first[count - 1], again):
            if one != other:
                return "%s differs: %s%s" % (
                    one[0],
                    one[1],
                    "" if one[1] == other[1] else " and " + other[1],
                )
    return (
        None
        if count == len(first)
        else "the first run gave %d batches, the second %d" % (len(first), count)
    )
