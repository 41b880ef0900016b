# SPDX-License-Identifier: Apache-2.0
"""TWINRUN_PINS in PyTorch: its seeds, what it lets one hold still, its loaders, ranks, buckets and
autotuning. Each pin makes two processes equal, and without it the job is natural.
"""

import sys
from pathlib import Path

import pytest

from conftest import FULL
from pins_job import job, pinned_and_shaken  # noqa: F401


def test_torch_seed(job, python, light):
    text = "import torch; print(torch.randn(2).tolist()); s = torch.seed(); print(s == torch.initial_seed(), torch.rand(1).item())"
    # test_run_pins.py lets it draw freely
    first = pinned_and_shaken(job, text, "seed.torch", natural=FULL, python=python)
    import torch

    assert first.out.splitlines()[0] == str(
        torch.randn(2, generator=torch.Generator().manual_seed(0)).tolist()
    )
    assert first.out.splitlines()[1].startswith("True ")
    own = job(
        "import torch\ntorch.manual_seed(3)\nprint(torch.initial_seed())",
        "seed.torch=pin:8",
        python,
    )
    assert (
        own.out == "3\n"
        and own.texts("seed.torch")[1] == "overridden: the job sets it itself, at job.py:2"
    )


def test_a_generator_of_torch_needs_no_pin(job, python, light):
    """Torch starts each from the same seed: what docs/internals/pins.md says."""
    assert (
        job("import torch; print(torch.Generator().initial_seed())", None, python).out
        == "67280421310721\n"
    )


def test_without_cuda_its_pins_say_so(job, python, calm):
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch is built with CUDA")
    done = job(
        "import torch; print(torch.backends.cudnn.benchmark)",
        "seed.cuda=pin,cudnn-benchmark=pin,cudnn-deterministic=pin,tf32=pin",
        python,
        ("-W", "error"),
    )
    for name in ("seed.cuda", "cudnn-benchmark", "cudnn-deterministic", "tf32"):
        assert done.texts(name)[0].startswith("not used: no CUDA")
    assert done.err == ""


# ---------------------------------------------------------------- what torch lets one hold still

INDEX = """
    import torch, hashlib
    torch.manual_seed(0)
    torch.set_num_threads(2)
    table = torch.zeros(50, 64, requires_grad=True)
    at = torch.randint(0, 50, (20000,))
    weights = torch.randn(20000, 64)
    for again in range(4):
        table.grad = None
        for step in range(12):
            (table[at] * weights).sum().backward()
        print(hashlib.sha256(table.grad.numpy().tobytes()).hexdigest())
"""


def test_index_gradient_becomes_repeatable(job, python, calm):
    for name in ("threads", "torch-deterministic"):
        assert (
            len(
                {
                    line
                    for _ in range(2)
                    for line in job(INDEX, name + "=pin", python, ("-W", "error")).out.splitlines()
                }
            )
            == 1
        )
    if len(set(job(INDEX, None, python).out.splitlines())) == 1:
        pytest.skip("the gradient did not vary on this machine: the pins had nothing to prove")


def test_threads_stay_when_the_job_sets_them(job, python, light):
    text = """
        import torch
        torch.set_num_threads(4)
        torch.set_num_interop_threads(3)
        print(torch.get_num_threads(), torch.get_num_interop_threads())
        for wrong in (0, "a"):
            try:
                torch.set_num_threads(wrong)
            except (RuntimeError, TypeError) as error:
                print(type(error).__name__, str(error).splitlines()[0])
        try:
            torch.set_num_interop_threads(3)
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    """
    plain, pinned = job(text, None, python), job(text, "threads=pin:2", python)
    assert plain.out.splitlines()[0] == "4 3" and pinned.out.splitlines()[0] == "2 2"
    assert pinned.out.splitlines()[1:] == plain.out.splitlines()[1:]
    assert pinned.texts("threads") == [
        "pin 2 threads in and between operations",
        "pin 2 threads in and between operations kept: the job asked for 4 threads, at job.py:2",
        "pin 2 threads in and between operations kept: the job asked for 3 interop threads, at job.py:3",
    ]


ALERT = """
    import torch, warnings
    %s
    x = torch.zeros(3)
    warnings.simplefilter("error")
    try:
        x.put_(torch.tensor([0, 0]), torch.ones(2)); x.put_(torch.tensor([0]), torch.ones(1))
        print("quiet", torch.are_deterministic_algorithms_enabled(), torch.empty(2).isnan().all().item())
    except Exception as error:
        print(type(error).__name__)
"""


def test_deterministic_algorithms_without_their_warnings(job, python, calm):
    done = job(ALERT % "", "torch-deterministic=pin", python, ("-W", "error"))
    assert done.out == "quiet True True\n" and done.err == ""
    assert done.texts("torch-deterministic")[-1].endswith(
        "calls without a deterministic version: 2 put_"
    )


def test_a_job_that_asks_for_deterministic_algorithms_gets_them(job, python, calm):
    wishes = {
        "torch.use_deterministic_algorithms(True)": "RuntimeError\n",
        "torch.use_deterministic_algorithms(True, warn_only=True)": "UserWarning\n",
    }
    assert job("".join(ALERT % wish for wish in wishes), None, python).out == "".join(
        wishes.values()
    )
    for wish, outcome in wishes.items():
        done = job(ALERT % wish, "torch-deterministic=pin", python)
        assert done.out == outcome
        assert (
            done.texts("torch-deterministic")[-1]
            == "overridden: the job sets it itself, at job.py:2"
        )
    done = job(
        ALERT % "torch.use_deterministic_algorithms(False)", "torch-deterministic=pin", python
    )
    assert done.out == "quiet True True\n"
    assert "kept: the job asked for False, at job.py:2" in done.texts("torch-deterministic")[1]


def test_the_compiler_puts_back_what_it_found(job, python, calm):
    text = """
        import torch
        f = torch.compile(lambda x: x.put_(torch.tensor([0, 0]), torch.ones(2)) + 1, backend="eager")
        print(f(torch.zeros(3)).shape, torch.are_deterministic_algorithms_enabled())
    """
    done = job(
        text,
        "torch-deterministic=pin,seed.torch=pin,threads=pin,tf32=pin",
        python,
        ("-W", "error::UserWarning"),
    )
    assert done.out == "torch.Size([3]) True\n" and done.err == ""
    assert not any(
        "overridden" in text or "kept" in text or "failed" in text for _name, text in done.effects
    ), done.effects


def test_flags_stay(job, python, calm):
    text = """
        import torch
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = True
        print(torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.deterministic)
        with torch.backends.cudnn.flags(benchmark=True):
            print(torch.backends.cudnn.benchmark)
    """
    assert job(text, None, python).out == "True True False\nTrue\n"
    done = job(
        text, "cudnn-benchmark=pin,cudnn-deterministic=pin,tf32=pin", python, ("-W", "error")
    )
    assert done.out == "False False True\nFalse\n"
    assert "kept: the job asked for True, at job.py:2" in done.texts("cudnn-benchmark")[1]


def test_every_way_to_tf32_is_held(job, python, calm):
    """allow_tf32 was held alone, and a job got around it by the other two."""
    text = """
        import torch
        cuda = torch.backends.cuda.matmul
        torch.set_float32_matmul_precision("high")
        print(cuda.allow_tf32, torch.get_float32_matmul_precision())
        cuda.allow_fp16_reduced_precision_reduction = True
        print(cuda.allow_fp16_reduced_precision_reduction)
        if hasattr(torch._C, "_set_fp32_precision_setter"):
            for room in (cuda, torch.backends.cudnn.conv, torch.backends):
                room.fp32_precision = "tf32"
            print(cuda.fp32_precision, torch.backends.cudnn.conv.fp32_precision)
        try:
            torch.set_float32_matmul_precision(3)
        except (RuntimeError, TypeError):
            print("refused")
    """
    new = job("import torch; print(hasattr(torch._C, '_set_fp32_precision_setter'))", None, python)
    plain, held = job(text, None, python), job(text, "tf32=pin", python)
    assert plain.out == "True high\nTrue\n" + "tf32 tf32\n" * ("True" in new.out) + "refused\n"
    assert held.out == "False highest\nFalse\n" + "ieee ieee\n" * ("True" in new.out) + "refused\n"
    assert any("the job asked for high, at job.py:3" in t for t in held.texts("tf32"))


ATTENTION = """
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend
    torch.manual_seed(0)
    q = torch.randn(1, 2, 64, 16)
    taken = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with taken:
        plain = attend(q, q, q)
        torch.backends.cuda.enable_flash_sdp(True)
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            asked = attend(q, q, q)
    ways = [e.key for e in taken.key_averages() if "flash" in e.key or "attention_math" in e.key]
    print(sorted(ways), torch.equal(plain, asked))
"""


def test_attention_by_the_plain_way_alone(job, python, calm):
    """For real: a processor has two ways, and the pin leaves one, whatever the job asks for."""
    free = job(ATTENTION, None, python)
    assert "flash" in free.out and "attention_math" not in free.out, free
    held = job(ATTENTION, "sdpa-backend=pin", python)
    assert held.out == "['aten::_scaled_dot_product_attention_math'] True\n", held
    said = held.texts("sdpa-backend")
    assert said[0] == "pin attention by math"
    assert any("kept: the job asked for True, at job.py:8" in t for t in said), said
    varied = job(ATTENTION, "sdpa-backend=vary:1", python)  # a seed that leaves flash among them
    assert "flash" in varied.out and "attention_math" not in varied.out, varied


LOADER = """
    import os, random, torch, numpy
    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, at):
            self.rng = getattr(self, "rng", None) or numpy.random.default_rng()
            return torch.tensor([self.rng.random(), random.random(), torch.rand(1).item()], dtype=torch.float64)
    if __name__ == "__main__":
        loader = torch.utils.data.DataLoader(Noisy(), 2, shuffle=True, num_workers=2, %s)
        for epoch in range(%d):
            for batch in loader:
                print(batch.flatten().tolist())
        print(loader.num_workers)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"] + ["forkserver"] * FULL)
def test_loader_workers_under_pinned_seeds(job, python, method, light):
    # each starts workers anew, and all but forked ones import torch
    epochs = 2 if method == "fork" or FULL else 1
    text = LOADER % ("multiprocessing_context=%r" % method, epochs)
    seeds = "seed.python=pin,seed.numpy=pin,seed.torch=pin"
    first, again = job(text, seeds, python), job(text, seeds, python)
    assert first.out == again.out
    numbers = [x for line in first.out.splitlines()[:-1] for x in line.strip("[]").split(", ")]
    assert len(set(numbers)) == len(numbers) == 24 * epochs  # no worker repeats another's stream
    assert not any(text.startswith("overridden") for _name, text in first.effects), first.factors
    if method == "fork" or FULL:
        natural = [job(text, None, python).out for _ in range(2)]
        assert natural[0] != natural[1]


@pytest.mark.parametrize(
    "arguments",
    ["timeout=60, prefetch_factor=4, persistent_workers=True", "multiprocessing_context='spawn'"],
)
def test_loaders_without_workers(job, python, arguments, light):
    done = job(
        LOADER % (arguments, 2),
        "loader-workers=pin,seed.torch=pin,seed.python=pin,seed.numpy=pin",
        python,
    )
    assert done.out.splitlines()[-1] == "0"
    assert "kept: the job asked for num_workers=2, at job.py:9" in done.texts("loader-workers")[-1]


def test_loaders_with_another_number_of_workers(job, python, light):
    three = job(LOADER % ("drop_last=True", 1), "loader-workers=pin:3", python)
    assert three.out.splitlines()[-1] == "3"
    refused = "import torch; torch.utils.data.DataLoader([1], num_workers=-1)"
    plain, pinned = (
        job(refused, None, python, rc=1),
        job(refused, "loader-workers=pin", python, rc=1),
    )
    assert plain.err.splitlines()[-1] == pinned.err.splitlines()[-1] and "num_workers" in plain.err


# ---------------------------------------------------------------- ranks, buckets, autotuning

RANKS = """
    import os, random, sys, time, logging, torch, torch.distributed as dist
    def rank():
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        net = torch.nn.Sequential(*[torch.nn.Linear(30, 30) for _ in range(6)])
        ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01)
        for step in range(3):
            ddp(torch.ones(2, 30)).sum().backward()
        if dist.get_rank() == 0:
            print(getattr(ddp, "_has_rebuilt_buckets", None), ddp.reducer._rebuild_buckets())
        dist.barrier()
        time.sleep(0.5)  # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
        dist.destroy_process_group()
    rank()
"""


def ranks(python, count):
    return [
        python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=%d" % count,
        "job.py",
    ]


def test_buckets_of_ddp_stay_as_they_were_laid(job, python, light):
    natural = job(RANKS, None, command=ranks(python, 2))
    pinned = job(RANKS, "ddp-buckets=pin", command=ranks(python, 2))
    assert natural.out.startswith("True") and pinned.out.startswith("False"), (
        natural.out,
        pinned.out,
    )
    by_rank = {
        r
        for _pid, r, _role, key, text in pinned.factors
        if key == "effect.ddp-buckets" and text.startswith("pin ")
    }
    assert by_rank == {"0", "1"}
    varied = job(RANKS, "ddp-buckets=vary:3", command=ranks(python, 2))
    assert varied.texts("ddp-buckets")[0].startswith("vary buckets of ")


SUMS = """
    import hashlib, time, torch, torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    def digest(t):
        return hashlib.sha256(t.numpy().tobytes()).hexdigest()[:12]

    def gradient(mine, hook=None):
        torch.manual_seed(0)
        ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(20, 30))
        if hook:
            ddp.register_comm_hook(None, hook)
        ddp(torch.randn(7, 20, generator=torch.Generator().manual_seed(mine))).pow(2).sum().backward()
        return ddp.module.weight.grad

    def rank():
        dist.init_process_group("gloo")
        for turn in range(3):
            mine = (dist.get_rank() + turn) % 3       # which of the three contributions this rank has
            numbers = torch.randn(500, generator=torch.Generator().manual_seed(mine)) * 10.0 ** mine
            waited, whole, most = numbers.clone(), torch.ones(3, dtype=torch.int64), torch.tensor([float(mine)])
            dist.all_reduce(numbers)
            dist.all_reduce(waited, async_op=True).wait()
            dist.all_reduce(whole)
            dist.all_reduce(most, op=dist.ReduceOp.MAX)
            found = gradient(mine)
            if dist.get_rank() == 0:
                print(digest(numbers), digest(waited), digest(found), whole.tolist(), most.item())
        close = torch.allclose(gradient(mine, allreduce_hook), found)
        if dist.get_rank() == 0:
            print(close)
        dist.barrier()
        time.sleep(0.5)  # as above
        dist.destroy_process_group()
    rank()
"""


def test_sums_over_ranks_without_an_order(job, python, light):
    natural, exact = (
        job(SUMS, pins, command=ranks(python, 3)) for pins in (None, "exact-allreduce=pin")
    )
    *turns, hooked = natural.out.splitlines()
    assert len(set(turns)) > 1, "the order does not matter here: nothing is tested"
    *turns, hooked = exact.out.splitlines()
    assert len(turns) == 3 and len(set(turns)) == 1 and hooked == "True", exact.out
    one, waited, _gradient, rest = turns[0].split(" ", 3)
    assert one == waited and rest == "[3, 3, 3] 2.0"
    said = {
        (r, text) for _pid, r, _role, key, text in exact.factors if key == "effect.exact-allreduce"
    }
    assert {(r, "pin all_reduce and DistributedDataParallel add integers") for r in "012"} <= said
    assert all(
        any(r == rank and text.startswith("overridden: ") for rank, text in said) for r in "012"
    ), said


def test_seeds_are_those_of_a_line_in_the_script_on_every_rank(job, python, work, light):
    text = """
        import os, torch, numpy, random
        values = (torch.initial_seed(), random.random(), numpy.random.default_rng().random())
        open("rank" + os.environ["RANK"], "w").write(repr(values))
    """
    job(text, "seed.torch=pin:4,seed.python=pin:4,seed.numpy=pin:4", command=ranks(python, 2))
    first, second = ((work / name).read_text() for name in ("rank0", "rank1"))
    assert first == second and first.startswith("(4, ")
    job(text, "seed.torch=vary:4,seed.python=vary:4,seed.numpy=vary:4", command=ranks(python, 2))
    assert (work / "rank0").read_text() != (work / "rank1").read_text()


def test_autotuning_is_told_not_to_measure(job, python, calm):
    text = """
        import torch._inductor.config as config
        print(config.deterministic, config.max_autotune)
        from torch._inductor.runtime import triton_heuristics
        best = triton_heuristics.CachingAutotuner.benchmark_all_configs
        print(best.__name__)
    """
    done = job(text, "autotune=pin", python, env={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"})
    assert done.out.startswith("True False\n")
    assert job(text, None, python, env={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}).out.startswith(
        "False True\n"
    )
    assert done.texts("autotune")[0] == "pin torch._inductor: no choice by time"


def test_of_equal_times_the_first_candidate_that_runs_is_taken():
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "twinrun"))
    try:
        from _agent import pin_torch
    finally:
        sys.path.pop(0)
    timings = pin_torch._first_that_runs(
        {"a": float("inf"), "b": 3.0, "c": 1.0, "d": [0.5, 0.4, 0.6]}
    )
    assert timings["a"] == float("inf") and timings["d"] == [1.0, 1.0, 1.0]
    assert min(("a", "b", "c"), key=timings.get) == "b"
