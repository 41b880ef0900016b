# SPDX-License-Identifier: Apache-2.0
"""twinrun.torch over gloo ranks: exact_allreduce and ExactDDP give the same bits on any number of
them; wrong use raises on all.

Ranks are forks of this process, which has PyTorch in memory already.
"""

import hashlib
import multiprocessing
import os
import random
import sys
import tempfile
import traceback
from datetime import timedelta
from fractions import Fraction

import pytest

from conftest import FULL, ROOT

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings, strategies as st  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault(
    "TWINRUN_NUMERICS",
    os.path.join(
        os.environ.get("TWINRUN_BUILD", str(ROOT / "build")), "src/numerics/libtwinnumerics.so"
    ),
)
import twinrun.torch as exact  # noqa: E402
from twinrun.torch import _data, _reduce  # noqa: E402

dist = torch.distributed
TYPES = torch.float64, torch.float32, torch.float16, torch.bfloat16


def hash_of(*tensors):
    state = hashlib.blake2b(digest_size=12)
    for t in tensors:
        state.update(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def _child(pipe, job, rank, world, place):
    try:
        torch.set_num_threads(1)  # a pool of threads does not survive a fork
        dist.init_process_group(
            "gloo",
            init_method="file://" + place,
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=60),
        )
        pipe.send((True, job(rank, world)))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    finally:
        pipe.close()
        os._exit(0)


def ranks(world, job, patience=100):
    """What job(rank, world) returned on each rank."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe(False) for _ in range(world)]
        children = [
            fork.Process(
                target=_child, args=(pipes[r][1], job, r, world, folder + "/meet"), daemon=True
            )
            for r in range(world)
        ]
        for child in children:
            child.start()
        try:
            answers = []
            for rank in range(world):
                assert pipes[rank][0].poll(patience), (
                    "rank %d of %d has not answered in %d s: a hang" % (rank, world, patience)
                )
                good, answer = pipes[rank][0].recv()
                assert good, "rank %d: %s" % (rank, answer)
                answers.append(answer)
            return answers
        finally:
            for child in children:
                child.join(5)
                if child.is_alive():
                    child.kill()
                    child.join()


def one(values):
    assert len(set(values)) == 1, values
    return values[0]


# ---- all-reduce

TOTAL = 12
SIZES = 0, 1, 5, 1024, 3001, 300000  # the last: more than one piece on its way, see spread


def contribution(number, n, dtype, how):
    x = torch.randn(n, generator=torch.Generator().manual_seed(1000 * number + n))
    if how == "wide":
        x = x * 10.0 ** (torch.arange(n) % 9 - 4)
    if how == "special" and n:
        x[number % n] = (
            float("nan") if number == 3 else float("inf") if number in (4, 5) else x[number % n]
        )
        x[n // 2] = float("-inf") if number == 6 else float("inf") if number == 7 else 1.0
    return x.to(dtype)


def spread(rank, world):
    if world > 1:  # in a process of its own
        _reduce._CHUNK = _reduce._OWNERS_CHUNK = 1 << 16
        _reduce._OWNERS_FROM = 1 << 14
    found = {}
    for how in ("normal", "wide", "special"):
        for dtype in TYPES:
            for n in SIZES if how == "normal" else SIZES[:-1]:
                mine = [contribution(m, n, dtype, how) for m in _data.share(TOTAL, rank, world)]
                random.Random(rank).shuffle(mine)
                for mean in (False, True):
                    out = exact.exact_allreduce(
                        mine, TOTAL, mean=mean, out=torch.full((n,), 7.0, dtype=dtype)
                    )
                    found[how, str(dtype), n, mean] = hash_of(out)
    return found


def alone(rank=0, world=1):
    return spread(0, 1)


def test_allreduce_any_number_of_ranks():
    expected = alone()
    for world in (2, 3, 5, 13) if FULL else (2, 5):  # 13: one has none
        for found in ranks(world, spread):
            assert found == expected


def test_allreduce_is_the_rounded_sum():
    """One process; what many give is the same. Numbers whose sum the integers hold exactly."""
    for dtype in TYPES:
        rows = [contribution(m, 64, torch.float16, "normal").to(dtype) for m in range(TOTAL)]
        totals = [sum((Fraction(float(row[i])) for row in rows), Fraction(0)) for i in range(64)]
        for mean, found in (
            (False, exact.exact_allreduce(rows)),
            (True, exact.exact_allreduce(rows, mean=True)),
        ):
            for i, total in enumerate(totals):
                total = total / TOTAL if mean else total
                step = max(
                    abs(
                        float(
                            torch.nextafter(found[i], torch.tensor(float("inf"), dtype=dtype))
                            - found[i]
                        )
                    ),
                    abs(
                        float(
                            found[i]
                            - torch.nextafter(found[i], torch.tensor(float("-inf"), dtype=dtype))
                        )
                    ),
                )
                assert abs(Fraction(float(found[i])) - total) <= Fraction(step) / 2


# it goes by the clock
@settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from([1, 2, 1024]),
    st.booleans(),
    st.randoms(),
)
def test_allreduce_order(rows, block, mean, shuffler):
    rows = [torch.tensor(row) for row in rows]
    expected = hash_of(exact.exact_allreduce(rows, mean=mean, block=block))
    shuffler.shuffle(rows)
    assert hash_of(exact.exact_allreduce(rows, len(rows), mean=mean, block=block)) == expected


def test_allreduce_in_place_and_gradients():
    def job(rank, world):
        x = torch.full((2, 3), float(rank + 1))
        assert exact.exact_allreduce(x, out=x) is x and x.eq(3).all()
        strided = torch.zeros(3, 2).t()
        assert (
            exact.exact_allreduce(torch.ones(2, 3), out=strided).eq(2).all() and strided.eq(2).all()
        )
        y = torch.randn(
            4, dtype=torch.float64, generator=torch.Generator().manual_seed(rank)
        ).requires_grad_()
        total = exact.exact_allreduce([y, y * 2], mean=True)
        (total * (rank + 1)).sum().backward()
        # (1 + 2) * (1 + 2) / 4
        assert torch.allclose(y.grad, torch.full((4,), 9 / 4, dtype=torch.float64)), y.grad
        return hash_of(total)

    one(ranks(2, job))
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    for check in torch.autograd.gradcheck, torch.autograd.gradgradcheck:
        assert check(lambda t: exact.exact_allreduce([t, t * t], mean=True, block=1), x)


def wrong_calls(rank, world):
    """On rank 1 something is different; every rank must raise, and the group must work
    afterwards.
    """
    odd = rank == 1
    f32, said = torch.ones(4), []
    for call in (
        lambda: exact.exact_allreduce(torch.ones(5 if odd else 4)),
        lambda: exact.exact_allreduce(torch.ones(2, 2) if odd else f32),
        lambda: exact.exact_allreduce(f32.double() if odd else f32),
        lambda: exact.exact_allreduce(f32.int() if odd else f32),
        lambda: exact.exact_allreduce("gradient" if odd else f32),
        lambda: exact.exact_allreduce(f32, 5 if odd else 2),
        lambda: exact.exact_allreduce(f32, 5),
        lambda: exact.exact_allreduce(f32, mean=odd),
        lambda: exact.exact_allreduce(f32, block=2 if odd else 1),
        lambda: exact.exact_allreduce(f32, block=0),
        lambda: exact.exact_allreduce([] if odd else [f32]),
        lambda: exact.exact_allreduce([f32, f32.half()] if odd else [f32]),
        lambda: exact.exact_allreduce([], out=f32),
    ):
        try:
            call()
            said.append(None)
        except (ValueError, TypeError) as error:
            said.append(str(error))
    assert exact.exact_allreduce(f32).eq(world).all()
    return said


def test_allreduce_wrong_use():
    first, second = ranks(2, wrong_calls)
    assert all(first) and all(second), (first, second)
    assert "disagree about the shape" in first[0] and "rank 1 has 5 elements" in first[0]
    assert "disagree about the shape" in second[1] and "disagree about the type" in first[2]
    assert (
        "rank 1 was called wrongly" in first[3]
        and "torch.int32" in second[3]
        and "must be a tensor" in second[4]
    )
    assert (
        "contributions=5" in first[5]
        and "gave 2 in all" in first[6]
        and "the mean" in first[7]
        and "the block" in first[8]
    )
    assert (
        "block=0" in first[9]
        and "give out=" in second[10]
        and "on one rank" in second[11]
        and "no rank" in first[12]
    )


# ---- training


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = exact.Embedding(20, 6)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 8),
            torch.nn.BatchNorm1d(8),
            torch.nn.Dropout(0.3),
            torch.nn.Linear(8, 3),
        )
        self.unused = torch.nn.Linear(2, 2)
        self.register_buffer("constant", torch.tensor([1.0, 1e-12, -0.0]))
        self.register_buffer("walk", torch.zeros(2, dtype=torch.float64))

    def forward(self, x):
        if self.training:
            self.walk += torch.rand(2, dtype=torch.float64)
        return self.layers(self.table(x).mean(1))


SAMPLES = torch.utils.data.TensorDataset(
    torch.randint(0, 20, (150, 4), generator=torch.Generator().manual_seed(5)),
    torch.randint(0, 3, (150,), generator=torch.Generator().manual_seed(6)),
)


def trainer(world, rank, microbatches=6, batch=30):
    exact.seed_all(11)
    if rank:
        torch.manual_seed(rank)  # another model: rank 0's counts
    model = Model()
    sampler = exact.DeterministicSampler(
        SAMPLES, batch, rank=rank, world=world, microbatches=microbatches
    )
    loader = torch.utils.data.DataLoader(SAMPLES, batch_sampler=sampler)
    return exact.ExactDDP(model, microbatches), sampler, loader


def train(ddp, sampler, loader, steps):
    """Returns the most microbatches that this rank computed in a step."""
    trained, most, loss_of = set(), 0, torch.nn.CrossEntropyLoss()
    while sampler.step < steps:
        for share in sampler.steps(loader):
            count = 0
            for number, (x, y) in share:
                with ddp.microbatch(number):
                    loss_of(ddp(x), y).backward()
                count += 1
            most = max(most, count)
            ddp.reduce()
            with torch.no_grad():
                for name, p in ddp.module.named_parameters():
                    if p.grad is not None:
                        p -= 0.1 * p.grad
                        trained.add(name)
            sampler.done()
            if sampler.step == steps:
                break
    assert len(trained) == 7 and not any(name.startswith("unused") for name in trained)
    return most


def weights(ddp):
    return hash_of(*ddp.module.state_dict().values())


def train_whole(rank, world):
    ddp, sampler, loader = trainer(world, rank)
    most = train(ddp, sampler, loader, 7)  # an epoch has 5
    assert most == len(ddp.mine) and most <= -(-6 // world)
    assert int(ddp.module.layers[1].num_batches_tracked) == 7 and ddp.step == 7
    assert hash_of(ddp.module.constant) == hash_of(Model().constant)
    return weights(ddp)


def test_training_any_number_of_ranks():
    expected = one(ranks(1, train_whole))
    for world in (2, 3, 4, 7) if FULL else (2, 4):
        assert one(ranks(world, train_whole)) == expected


def test_training_goes_on_with_another_number_of_ranks(tmp_path):
    path = str(tmp_path / "checkpoint.pt")

    def first(rank, world):
        ddp, sampler, loader = trainer(world, rank)
        train(ddp, sampler, loader, 3)
        if rank == 0:
            torch.save({"ddp": ddp.state_dict(), "sampler": sampler.state_dict()}, path)

    def second(rank, world):
        ddp, sampler, loader = trainer(world, rank)
        state = torch.load(path)
        ddp.load_state_dict(state["ddp"])
        sampler.load_state_dict(state["sampler"])
        train(ddp, sampler, loader, 7)
        return weights(ddp)

    ranks(2, first)
    assert one(ranks(3, second)) == one(ranks(1, train_whole))


def test_plain_sum_differs_where_ours_does_not():
    """The same gradients added by torch, in two groupings: or the tests above would
    prove nothing.
    """
    rows = [contribution(m, 3001, torch.float32, "normal") for m in range(TOTAL)]
    grouped = [sum(rows[:6]) + sum(rows[6:]), sum(rows[:4]) + sum(rows[4:8]) + sum(rows[8:])]
    assert hash_of(grouped[0]) != hash_of(grouped[1])


def test_gradient_is_the_mean():
    model = torch.nn.Linear(3, 2).double()
    ddp = exact.ExactDDP(model, 5, seed=1)
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    for number in ddp.mine:
        with ddp.microbatch(number):
            ddp(x[number]).pow(2).mean().backward()
    ddp.reduce()
    found = model.weight.grad.clone()
    model.zero_grad()
    torch.stack([model(part).pow(2).mean() for part in x]).mean().backward()
    assert torch.allclose(found, model.weight.grad, rtol=1e-14)


def test_generators_belong_to_the_microbatch():
    exact.seed_all(3)
    ddp = exact.ExactDDP(torch.nn.Linear(1, 1), 3)

    def draw(number):
        with ddp.microbatch(number):
            drawn = random.random(), torch.rand(1).item()
            ddp(torch.ones(1, 1)).sum().backward()
        return drawn

    before = random.getstate(), torch.get_rng_state()
    step = [draw(2), draw(0), draw(1)]
    ddp.reduce()
    again = [draw(0), draw(1), draw(2)]
    ddp.reduce()
    assert (
        len(set(step + again)) == 6
        and before[0] == random.getstate()
        and torch.equal(before[1], torch.get_rng_state())
    )
    other = exact.ExactDDP(torch.nn.Linear(1, 1), 3)
    other.step = 1
    with other.microbatch(0):
        assert (random.random(), torch.rand(1).item()) == again[0]


def test_training_wrong_use():
    exact.seed_all(1)
    ddp = exact.ExactDDP(torch.nn.Linear(2, 2), 3)
    x = torch.ones(1, 2)
    with pytest.raises(RuntimeError, match="within `with ddp.microbatch"):
        ddp(x)
    ddp.eval()
    ddp(x)
    ddp.train()
    with pytest.raises(ValueError, match="microbatch 3 does not belong to rank 0"):
        ddp.microbatch(3).__enter__()
    for number in (0, 1):
        with ddp.microbatch(number):
            ddp(x).sum().backward()
    with pytest.raises(RuntimeError, match="twice in one step"):
        ddp.microbatch(0).__enter__()
    with pytest.raises(RuntimeError, match=r"did not compute microbatch \[2\]"):
        ddp.reduce()
    with pytest.raises(RuntimeError, match="in the middle of a step"):
        ddp.state_dict()
    with ddp.microbatch(2):
        with pytest.raises(RuntimeError, match="within another"):
            ddp.microbatch(2).__enter__()
        ddp(x).sum().backward()
    ddp.reduce()
    state = ddp.state_dict()
    for wrong in (dict(microbatches=4), dict(seed=2), dict(version=2)):
        with pytest.raises(ValueError, match="this is"):
            ddp.load_state_dict({**state, "_extra_state": {**state["_extra_state"], **wrong}})
    changed = {**state, "_extra_state": {**state["_extra_state"], "environment": {"threads": 99}}}
    with pytest.warns(UserWarning, match="threads=99"):
        ddp.load_state_dict(changed)
    assert ddp.step == 1
    for arguments in (
        (torch.nn.Linear(1, 1), 0),
        (torch.nn.Linear(1, 1), 2.0),
        (torch.nn.ReLU(), 2),
    ):
        with pytest.raises(ValueError):
            exact.ExactDDP(*arguments)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.seen += int(x.sum())
        return self.layer(x)


def wrong_training(rank, world):
    said = []

    def tell(call):
        try:
            call()
            said.append(None)
        except (RuntimeError, ValueError) as error:
            said.append(str(error))

    tell(lambda: exact.ExactDDP(torch.nn.Linear(2, 3 if rank else 2), 2, seed=1))
    tell(lambda: exact.ExactDDP(torch.nn.Linear(2, 2), 2 + rank, seed=1))
    tell(lambda: exact.ExactDDP(torch.nn.Linear(2, 2), 2, seed=rank))
    ddp = exact.ExactDDP(Counter(), 2, seed=1)
    if rank == 0:
        with ddp.microbatch(0):
            ddp(torch.ones(1, 1)).sum().backward()
    tell(ddp.reduce)
    if rank == 1:
        with ddp.microbatch(1):
            ddp(torch.ones(1, 1) * 5).sum().backward()
    tell(ddp.reduce)
    return said


def test_training_wrong_use_on_one_rank():
    first, second = ranks(2, wrong_training)
    assert all(first) and all(second), (first, second)
    for said in first, second:
        assert (
            "rank 1 has another model" in said[0]
            and "another number of microbatches" in said[1]
            and "another seed" in said[2]
        )
        assert "rank 1 did not compute" in said[3] and "in different ways" in said[4]


def test_sampler_with_microbatches():
    every = {}
    for world in (1, 2, 4, 9):  # 9: more ranks than microbatches
        parts = {}
        for rank in range(world):
            sampler = exact.DeterministicSampler(
                SAMPLES, 30, seed=4, rank=rank, world=world, microbatches=6
            )
            assert len(sampler) == 5 * len(sampler.mine)
            loader = torch.utils.data.DataLoader(range(150), batch_sampler=sampler)
            for step, share in enumerate(sampler.steps(loader)):
                for number, batch in share:
                    assert (step, number) not in parts
                    parts[step, number] = batch.tolist()
                sampler.done()
            assert sampler.step == 5 and sampler.state_dict()["step"] == 5
        assert sorted(parts) == [(s, m) for s in range(5) for m in range(6)] and sorted(
            sum(parts.values(), [])
        ) == list(range(150))
        every[world] = parts
    assert one([str(sorted(parts.items())) for parts in every.values()])
    whole = exact.DeterministicSampler(SAMPLES, 30, seed=4)
    assert whole.indices(3) == sum((every[1][3, m] for m in range(6)), [])
    sampler = exact.DeterministicSampler(SAMPLES, 30, seed=4, microbatches=6)
    with pytest.raises(RuntimeError, match="left after 1 of the 6"):
        for share in sampler.steps(torch.utils.data.DataLoader(range(150), batch_sampler=sampler)):
            next(iter(share))
    with pytest.raises(RuntimeError, match="is the sampler its batch_sampler"):
        for share in sampler.steps([1, 2]):
            list(share)
    with pytest.raises(RuntimeError, match="has more batches"):
        for share in sampler.steps(range(31)):
            list(share)
            sampler.done()
    with pytest.raises(ValueError, match="for a sampler with microbatches"):
        list(whole.steps([]))
    with pytest.raises(ValueError, match="30 samples cannot be shared by 31 microbatches"):
        exact.DeterministicSampler(SAMPLES, 30, seed=4, microbatches=31)
