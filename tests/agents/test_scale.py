# SPDX-License-Identifier: Apache-2.0
"""`twinrun scale` over real jobs of several processes: torchrun with gloo, mpirun. Every figure is
computed again here from the times in the JSON.
"""

import math
import os
import shutil

import pytest
from conftest import FULL

DDP = """
    import os, time, torch, torch.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    everything = torch.randn(6, 24, 32)
    for step in range(6):
        share = everything[step].chunk(world)[rank]
        optimizer.zero_grad()
        model(share).pow(2).mean().backward()
        optimizer.step()
    time.sleep(0.5)  # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
    dist.destroy_process_group()
"""
T_975 = {1: 12.706204736432095, 2: 4.302652729911275}  # Student's quantile by degrees of freedom


def check_figures(study, work):
    """Throughput, cost and efficiency of each point from the raw times of the runs."""
    base = None
    for point in study["points"]:
        n = point["workers"]
        rates = []
        for r in study["runs"]:
            if r["workers"] == n and r["round"] and r["good"]:
                assert (
                    math.isclose(sum(r["step_s"]), r["timed_s"], rel_tol=1e-6)
                    and len(r["step_s"]) == r["timed_steps"] == r["steps"] - 1
                )
                rates.append(work * r["timed_steps"] / r["timed_s"])
        logs = [math.log(x) for x in rates]
        mean = sum(logs) / len(logs)
        assert math.isclose(point["throughput"]["value"], math.exp(mean))
        assert math.isclose(point["worker_seconds"]["value"], n / math.exp(mean))
        base = base or (n, mean)
        assert math.isclose(point["efficiency"]["value"], math.exp(mean - base[1]) * base[0] / n)
        if len(rates) > 1:
            half = T_975[len(rates) - 1] * math.sqrt(
                sum((x - mean) ** 2 for x in logs) / (len(logs) - 1) / len(logs)
            )
            assert math.isclose(
                point["throughput"]["interval"][0], math.exp(mean - half)
            ) and math.isclose(point["throughput"]["interval"][1], math.exp(mean + half))
        else:
            assert point["throughput"]["interval"] is None


def test_torchrun_with_gloo(twinrun, python, script, light):
    path = script("ddp.py", DDP)
    done = twinrun(
        "scale",
        "-q",
        "--json",
        "--counts",
        "1,2",
        "--repeats",
        "2" if FULL else "1",
        "--work-per-step",
        "24,samples",
        "--",
        python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node={n}",
        path,
        timeout=500,
    )
    assert done.rc == 3, done  # fewer than three runs
    study = done.json
    check_figures(study, 24)
    assert {(r["workers"], r["ranks"]) for r in study["runs"]} == {(1, 1), (2, 2)}
    assert "torch " in study["configuration"] and "default_dtype" in study["configuration"]
    one, two = study["results"]
    assert (
        one["classes"] == two["classes"] == 1 and two["compared"] and two["relative_l2"] < 1e-5
    ), study["results"]


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_mpirun(twinrun, build, kind):
    trainer, mpirun = build / "workloads" / f"trainer_mpi_{kind}", shutil.which(f"mpirun.{kind}")
    if not mpirun or not os.access(trainer, os.X_OK):
        pytest.skip(f"no {kind}")
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    over = ["--oversubscribe"] if kind == "openmpi" else []
    done = twinrun(
        "scale",
        "--json",
        "--counts",
        "1,2,4",
        "--work-per-step",
        "288,samples",
        "--",
        mpirun,
        *over,
        "-np",
        "{n}",
        trainer,
        "--steps",
        "8",
        "--quiet",
        env=env,
        timeout=400,
    )
    assert done.rc == 0, done
    study = done.json
    check_figures(study, 288)
    assert all(r["classes"] == 1 for r in study["results"]) and all(
        r["equal"] for r in study["results"][1:]
    ), "exact all-reduce: the same bits on any number of ranks"
    cores = len(os.sched_getaffinity(0))
    assert [p["oversubscribed"] for p in study["points"]] == [n > cores for n in (1, 2, 4)]
    if cores < 4:
        assert any(
            "4 workers on %d core" % cores in note
            and "says nothing of a machine with 4 cores" in note
            for note in study["notes"]
        )
