# SPDX-License-Identifier: Apache-2.0
"""Telemetry: is a slow rank of a run found, and what it is slow by?

A neighbour, a quota and more work are real. Other clocks and other machines cannot be made here:
they are simulated in recorded counters and provenance.
"""

import json
import os
import random
import shutil

import pytest

from conftest import FULL
from launch_helper import BUILD
from telemetry_injections import can_do, ranks_run, until_right
from telemetry_runs import newest, recorded, twinrun, words  # noqa: F401


def uneven(home, folder):
    return json.loads(twinrun(home, "report", "--json", folder).stdout)["uneven"]


needs_two = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")


@needs_two
@pytest.mark.parametrize("seed", range(12 if FULL else 1))
@pytest.mark.parametrize("kind", ["hog", "even"] + (["quota", "work"] if FULL else []))
def test_one_slow_rank(tmp_path, kind, seed):
    """A neighbour on one rank's processor, a quota on one rank, half as much work again for one
    rank: real, from begin to end.
    """
    if not can_do("quota"):
        pytest.skip(
            "control groups cannot be made here, without which other load slows a rank as well"
        )

    def attempt(number):
        folder, slow, disturbed = ranks_run(
            tmp_path, kind, random.Random("%s %d %d" % (kind, seed, number)), 400
        )
        found = uneven(tmp_path, folder)
        return (
            found,
            found["outcome"] == "alike"
            if kind == "even"
            else (found["outcome"], found.get("rank"), found.get("slow_ranks"))
            == ("uneven", slow, 1),
            disturbed,
        )

    found = until_right(attempt)
    if kind == "even":
        return
    assert found["of"] == ("running" if kind == "work" else "waiting") and not found["spin"]
    assert found["slower"] > 0.3 and found["interval"][0] <= found["slower"] <= found["interval"][1]
    if kind == "work":
        assert abs(found["slower"] - 0.5) < 0.15


@needs_two
@pytest.mark.skipif(not FULL, reason="TWINRUN_FULL=1")
@pytest.mark.parametrize("kind", ["hog", "quota", "even"])
def test_one_slow_rank_of_mpi(tmp_path, kind):
    """Open MPI waits by spinning: only the wait for a processor tells the ranks apart."""
    job = BUILD / "tests" / "agents" / "ranks_job_openmpi"
    if not job.exists() or not shutil.which("mpirun.openmpi"):
        pytest.skip("Open MPI is not here")
    folder, slow, _disturbed = ranks_run(tmp_path, kind, random.Random(kind), 400, mpi=job)
    found = uneven(tmp_path, folder)
    assert found["outcome"] == ("alike" if kind == "even" else "uneven"), found
    if kind != "even":
        assert found["rank"] == slow and found["of"] == "waiting"


DDP_JOB = """
import sys, time
import torch
import torch.distributed as dist
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
def main():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(4000 if dist.get_rank() == int(sys.argv[1]) else 1000, 256)
    began, step, ends = time.monotonic(), 0, torch.tensor(0)
    while not ends:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        step += 1
        ends.fill_(step >= 30 and time.monotonic() > began + 1.5)
        dist.broadcast(ends, 0)
main()
time.sleep(0.5)  # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
dist.destroy_process_group()
"""


@pytest.mark.skipif(not FULL, reason="20 s of three PyTorch processes: TWINRUN_FULL=1")
@pytest.mark.parametrize("slow", [0, 1])
def test_a_rank_of_torchrun_with_more_work(tmp_path, python, slow):
    """DistributedDataParallel over gloo; one rank has four times the samples. On a busy machine it
    also waits four times as long for a processor, or longer.
    """
    (tmp_path / "job.py").write_text(DDP_JOB)
    command = [
        python,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        tmp_path / "job.py",
        slow,
    ]
    twinrun(tmp_path, "record", "-q", "--level", "steps", "--", *command)
    found = uneven(tmp_path, newest(tmp_path))
    assert (found["outcome"], found.get("rank"), found.get("slow_ranks"), found["spin"]) == (
        "uneven",
        slow,
        1,
        False,
    ), found
    assert found["slower"] > 1 and found["interval"][0] <= found["slower"] <= found["interval"][1]
    ran, others_ran = found["own_s"] - found["wait_s"], found["others_s"] - found["others_wait_s"]
    assert 2 < ran / others_ran < 8, found
    extra, waited = found["own_s"] - found["others_s"], found["wait_s"] - found["others_wait_s"]
    assert found["of"] == ("waiting" if waited >= extra / 2 else "running")
    text = twinrun(tmp_path, "report", newest(tmp_path)).stdout
    assert text.startswith("UNEVEN  rank %d was " % slow), text


def simulate_ranks(
    folder, rng, ranks, slow, slower, spin=False, blank=False, steps=300, step_s=0.01
):
    """Telemetry of ranks in step, of which one needs `slower` times its time; spin: the others run
    while they wait; blank: without a thread's counters.
    """
    shutil.rmtree(folder / "telemetry")
    (folder / "telemetry").mkdir()
    takes = [step_s * slower * rng.uniform(1, 1.05) for _ in range(steps)]
    for rank in range(ranks):
        now, ran, rows = 10**12, 0.0, []
        for step in range(steps + 1):
            rows.append(
                "%d\t%d\t1\t%s\t%s\n"
                % (now, step, "-" if blank else int(ran * 1e9), "-" if blank else 0)
            )
            if step < steps:
                now += int(takes[step] * 1e9)
                ran += takes[step] if rank == slow or spin else step_s * rng.uniform(0.97, 1.0)
        (folder / "telemetry" / ("%d.1" % rank)).write_text(
            "twinrun.telemetry/1\tprocess\tn\t%d\t%d\t1\tmain\nt_ns\tsteps\tthread\tran_ns\twait_ns\n"
            % (rank, ranks)
            + "".join(rows)
        )


@pytest.mark.parametrize("seed", range(12 if FULL else 1))
def test_a_rank_on_another_processor(recorded, tmp_path, seed):
    """Other clocks and models cannot be had here: simulated in recorded counters and provenance."""
    rng = random.Random(seed)
    folder = tmp_path / "run"
    shutil.copytree(newest(recorded), folder)
    ranks, slower = rng.randint(4, 16), rng.uniform(1.25, 1.6)
    slow = rng.randrange(ranks)
    world = json.loads((folder / "provenance.json").read_text())
    usual, other = ("%s %d" % (words(rng).title(), rng.randint(1000, 9999)) for _ in range(2))
    world["ranks"] = [
        {"rank": r, "host": "n%d" % r, "machine": {"cpu": other if r == slow else usual}}
        for r in range(ranks)
    ]
    (folder / "provenance.json").write_text(json.dumps(world))
    simulate_ranks(folder, rng, ranks, slow, slower)
    found = uneven(recorded, folder)
    assert (found["outcome"], found["rank"], found["of"], found["slow_ranks"], found["ranks"]) == (
        "uneven",
        slow,
        "running",
        1,
        ranks,
    )
    assert (
        abs(found["slower"] / (slower - 1) - 1) < 0.25
        and other in found["machine"]
        and usual in found["machine"]
    )
    simulate_ranks(folder, rng, ranks, slow, 1.0)
    assert uneven(recorded, folder)["outcome"] == "alike"
    simulate_ranks(folder, rng, ranks, slow, slower, spin=True)
    found = uneven(recorded, folder)
    assert found["outcome"] == "alike" and "as far as can be told" in found["sentence"]
    simulate_ranks(folder, rng, ranks, slow, slower, blank=True)
    assert uneven(recorded, folder)["outcome"] == "not-known"
