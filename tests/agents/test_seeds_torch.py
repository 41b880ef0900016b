# SPDX-License-Identifier: Apache-2.0
"""twinrun.torch: seeds, data order and augmentation of a PyTorch job, whatever the number of
workers and ranks, and over a resume.
"""

import itertools
import pickle
import random
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from twinrun import seeds  # noqa: E402
from twinrun import torch as twin  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

SAMPLES, BATCH = 53, 8


class Noisy(Dataset):
    """Sample i, and what an augmentation would draw for it."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return torch.tensor(
            [float(i), random.random(), numpy.random.rand(), torch.rand(()).item()],
            dtype=torch.float64,
        )


@pytest.fixture(autouse=True)
def generators():
    before = random.getstate(), numpy.random.get_state(), torch.get_rng_state(), twin._data._root
    yield
    random.setstate(before[0]), numpy.random.set_state(before[1]), torch.set_rng_state(before[2])
    twin._data._root = before[3]


def drawn():
    return random.random(), numpy.random.rand(), torch.rand(()).item()


def sampler(**named):
    return twin.DeterministicSampler(**{"samples": SAMPLES, "batch": BATCH, "seed": 3, **named})


def train(s, loader, steps):
    """Batches of so many steps, as a job takes them."""
    taken = []
    while len(taken) < steps:
        for batch in loader:
            taken.append(batch.tolist())
            s.done()
            if len(taken) == steps:
                break
    return taken


def test_seed_all():
    given = twin.seed_all(7)
    first = drawn()
    assert given == {name: seeds.seed(7, name) for name in ("python", "numpy", "torch")}
    assert twin.seed_all(7) == given and drawn() == first
    others = [first]
    for place in dict(rank=0), dict(rank=1), dict(epoch=1), {}:
        twin.seed_all(7 if place else 8, **place)
        others.append(drawn())
    # no two generators of any two places agree
    assert len({x for row in others for x in row}) == 15
    assert twin.seed_all(7, "rank=1") == twin.seed_all(7, rank=1)
    with pytest.raises(ValueError):
        twin.seed_all(-1)
    assert twin._data._root == 7


def test_the_root_is_the_order():
    twin._data._root = None
    with pytest.raises(RuntimeError, match="seed_all"):
        twin.DeterministicSampler(SAMPLES, BATCH)
    with pytest.raises(RuntimeError, match="seed_all"):
        twin.SeededSamples(Noisy())
    twin.seed_all(7, rank=5)
    assert (
        twin.DeterministicSampler(SAMPLES, BATCH).seed
        == twin.SeededSamples(Noisy()).seed
        == seeds.seed(7, "data")
    )


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_once_and_the_same_batches_for_all_worlds(drop_last):
    alone = sampler(drop_last=drop_last, batch=9)
    # a job that does not count its steps: an epoch for each loop
    epochs = [list(alone), list(alone)]
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        taken = [i for batch in epoch for i in batch]
        assert len(set(taken)) == len(taken) == (45 if drop_last else SAMPLES) and len(
            epoch
        ) == len(alone)
        assert taken != sorted(taken)
    for world in 1, 2, 3, 4, 6, 8:
        ranks = [sampler(drop_last=drop_last, batch=9, rank=r, world=world) for r in range(world)]
        for epoch in epochs:
            parts = [list(r) for r in ranks]
            assert [sum(step, []) for step in zip(*parts)] == epoch
            assert max(len(b) for p in parts for b in p) <= -(-9 // world)
    assert sampler(shuffle=False).indices(1) == list(range(8, 16))


def test_a_step_without_samples_is_refused():
    assert len(sampler(batch=10, rank=0, world=3)) == 6
    with pytest.raises(
        ValueError, match="batch of 3 samples cannot be shared by 4 ranks.*drop_last"
    ):
        sampler(batch=10, rank=0, world=4)
    assert len(sampler(batch=10, rank=0, world=4, drop_last=True)) == 5
    with pytest.raises(ValueError, match="larger batch$"):
        sampler(batch=2, samples=4, rank=0, world=3)
    with pytest.raises(ValueError, match="rank must be"):
        sampler(rank=2, world=2)


def test_resume_at_any_step_with_other_ranks():
    order = seeds.Order(SAMPLES, BATCH, 3)
    for at in range(0, 2 * order.steps + 1):
        s = sampler()
        loader = DataLoader(range(SAMPLES), batch_sampler=s)
        before = train(s, loader, at) if at else []
        state = pickle.loads(pickle.dumps(s.state_dict()))
        assert before == [order.take(k) for k in range(at)] and state["step"] == at
        for world in 1, 3, 5:
            ranks = [sampler(rank=r, world=world) for r in range(world)]
            for r in ranks:
                r.load_state_dict(state)
            after = [train(r, DataLoader(range(SAMPLES), batch_sampler=r), 5) for r in ranks]
            assert [sum(step, []) for step in zip(*after)] == [order.take(at + k) for k in range(5)]


def test_fetched_is_not_trained():
    s = sampler()
    assert s.state_dict()["step"] == 0
    loader = iter(DataLoader(range(SAMPLES), batch_sampler=s, num_workers=2, prefetch_factor=2))
    next(loader)
    with pytest.raises(RuntimeError, match="done()"):
        s.state_dict()
    s.done()
    next(loader)
    assert s.state_dict()["step"] == 1  # whatever the workers have in stock
    del loader
    s.set_epoch(0)
    assert s.step == 1  # stays within the epoch
    s.set_epoch(4)
    assert s.step == 4 * len(s) and s.epoch == 4 and s.state_dict()["step"] == s.step


def test_another_order_is_not_continued():
    state = sampler().state_dict()
    for name, value in dict(seed=4, samples=54, batch=9, shuffle=False, drop_last=True).items():
        with pytest.raises(ValueError, match=name):
            sampler(**{name: value}).load_state_dict(state)
    with pytest.raises(ValueError, match="version 1"):
        sampler().load_state_dict({"step": 3})


def augmented(steps, workers=0, rank=0, world=1, state=None, **named):
    data = twin.SeededSamples(Noisy(), seed=3)
    s = sampler(samples=data, rank=rank, world=world)
    if state:
        s.load_state_dict(state)
    loader = DataLoader(
        data, batch_sampler=s, num_workers=workers, worker_init_fn=s.worker_init_fn, **named
    )
    return train(s, loader, steps)


def test_augmentation_belongs_to_the_sample():
    steps = 2 * len(sampler()) + 2
    alone = augmented(steps)
    rows = [tuple(row) for batch in alone for row in batch]
    # another draw for each sample, epoch and generator
    assert len({x for row in rows for x in row[1:]}) == 3 * len(rows)
    assert augmented(steps, workers=2) == alone
    assert augmented(steps, workers=1, persistent_workers=True) == alone
    assert [
        sum(step, []) for step in zip(*(augmented(steps, rank=r, world=3) for r in range(3)))
    ] == alone
    state = dict(sampler().state_dict(), step=9)
    assert augmented(steps - 9, workers=1, state=state) == alone[9:]


def test_spawned_workers():
    assert augmented(3, workers=1, multiprocessing_context="spawn") == augmented(3)


def test_the_job_draws_as_if_no_sample_had_been_loaded():
    data = twin.SeededSamples(Noisy(), seed=3)
    twin.seed_all(7)
    expected = drawn()
    twin.seed_all(7)
    first = data[4]
    assert drawn() == expected and torch.equal(data[4], first) and not torch.equal(data[5], first)
    data.epoch = 1
    assert not torch.equal(data[4], first)

    class Broken(Noisy):
        def __getitem__(self, i):
            random.random(), numpy.random.rand(), torch.rand(())
            raise KeyError(i)

    twin.seed_all(7)
    with pytest.raises(KeyError):
        twin.SeededSamples(Broken(), seed=3)[0]
    assert drawn() == expected


def test_workers_are_seeded_apart():
    def seen(rank, resumed_at=0):
        s = sampler(rank=rank, world=2)
        s.step = resumed_at
        loader = DataLoader(
            Noisy(), batch_sampler=s, num_workers=2, worker_init_fn=s.worker_init_fn
        )
        return [tuple(row[1:].tolist()) for batch in loader for row in batch]

    both = seen(0), seen(1), seen(0, len(sampler()))
    assert seen(0) == both[0]
    assert len({x for rows in both for row in rows for x in row}) == sum(
        3 * len(rows) for rows in both
    )


def test_samples_and_workers_do_not_call_the_jobs_functions(monkeypatch):
    """isolate takes a call of these for the job's own seeding, and its pins for overridden."""
    twin.seed_all(7)
    for module in random, numpy.random:
        monkeypatch.setattr(module, "seed", None)
    monkeypatch.setattr(torch, "manual_seed", None)
    twin.SeededSamples(Noisy(), seed=3)[1]
    before = drawn()
    sampler().worker_init_fn(0)
    assert drawn() != before


def test_ranks_of_torch_distributed(monkeypatch):
    for name, value in dict(is_initialized=True, get_rank=2, get_world_size=3).items():
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    assert list(sampler()) == list(sampler(rank=2, world=3)) != list(sampler(rank=0, world=1))


def test_check_loader():
    def make(seed=3):
        data = Noisy() if seed is None else twin.SeededSamples(Noisy(), seed=seed)
        return lambda: DataLoader(data, batch_sampler=sampler(samples=data if seed else SAMPLES))

    assert twin.check_loader(make()) is None
    assert twin.check_loader(make(seed=None)) == "batch 0 differs: torch.float64 [8, 4]"
    nan = {
        "x": torch.tensor([float("nan"), 1.0]),
        "y": (numpy.arange(3), "name", None),
        "z": torch.ones(2, dtype=torch.bfloat16)[0],
    }
    assert twin.check_loader(lambda: [nan, nan]) is None

    def changing(*versions):
        runs = iter(versions)
        return lambda: next(runs)

    for one, other, expected in (
        ([nan, {"x": [1, 2]}], [nan, {"x": [1, 3]}], "batch 1['x'][1] differs: int"),
        ([[torch.zeros(2)]], [[-torch.zeros(2)]], "batch 0[0] differs: torch.float32 [2]"),
        (
            [torch.zeros(2)],
            [torch.zeros(2, 1)],
            "batch 0 differs: torch.float32 [2] and torch.float32 [2, 1]",
        ),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}], "batch 0 differs: keys"),
        ([[1]], [[1, 2]], "batch 0 differs: list of 1 and list of 2"),
        ([1, 2], [1], "the first run gave 2 batches, the second 1"),
        ([1], [], "the first run gave 1 batches, the second 0"),
        ([1], [1, 2], "the first run ended after 1 batches, the second went on"),
    ):
        assert twin.check_loader(changing(one, other)) == expected
    assert twin.check_loader(changing([1, 2], [1, 3]), batches=1) is None
    assert twin.check_loader(lambda: itertools.count(), batches=3) is None


@pytest.mark.usefixtures("light")
def test_under_the_agent(twinrun, script):
    """The agent records the job's own indices and stays at work."""
    script(
        "job.py",
        """
        import sys
        sys.path.insert(0, %r)
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        from twinrun.torch import DeterministicSampler, SeededSamples, seed_all
        seed_all(7)
        data = SeededSamples(TensorDataset(torch.randn(24, 3)))
        s = DeterministicSampler(data, 8)
        model = torch.nn.Linear(3, 1)
        o = torch.optim.SGD(model.parameters(), 0.1)
        for (b,) in DataLoader(data, batch_sampler=s):
            o.zero_grad(), model(b).sum().backward(), o.step(), s.done()
        """
        % str(Path(__file__).resolve().parents[2] / "python"),
    )
    done = twinrun("record", "--", sys.executable, "job.py")
    assert done.rc == 0, done
    notes = twinrun("show", "last", "--notes")
    assert notes.rc == 0 and "agent.error" not in notes.out, notes
    shown = twinrun("show", "last", "--record", "*/indices/*")
    assert shown.rc == 0 and shown.out.count("indices") >= 3, shown
