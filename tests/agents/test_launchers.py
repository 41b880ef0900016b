# SPDX-License-Identifier: Apache-2.0
"""What starts the ranks of a job: torch.multiprocessing.spawn, torchrun that starts them again,
accelerate. The traces are named by rank, runs are compared rank by rank, and a rank that could not
be seen is named. (mpirun and srun: test_mpi.py, test_slurm.py.)
"""

import json
import re
from pathlib import Path

import pytest

from conftest import FULL, library_python

pytestmark = pytest.mark.usefixtures("light")

TRAIN = """
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        opt.zero_grad()
        net(torch.randn(8, 4)).pow(2).mean().backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        opt.step()
    time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
"""


def runs_of(home):
    """The run folders of a home, the oldest first."""
    found = [path for path in (home / "runs").iterdir() if (path / "run.json").exists()]
    return sorted(
        found, key=lambda p: json.loads((p / "run.json").read_text())["start_realtime_ns"]
    )


def ranks_in(folder):
    return sorted(int(trace.name.split(".")[0]) for trace in (folder / "ranks").glob("*.twt"))


@pytest.fixture
def spawned(script, python, tmp_path_factory):
    """spawned(ODD): the command of a job whose ranks are known at init_process_group and no sooner,
    with a look at the model before; rank ODD draws from a generator that nobody seeded.
    """
    script(
        "spawned.py",
        """
import os, sys, tempfile, time
import torch, torch.distributed as dist, torch.multiprocessing as mp

def main(rank, meet, odd):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    net = torch.nn.Linear(4, 2)
    net(torch.zeros(1, 4))
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    if rank == odd:
        torch.seed()
"""
        + TRAIN
        + """
if __name__ == "__main__":
    meet = tempfile.mktemp(dir=sys.argv[1])
    mp.spawn(main, args=(meet, int(sys.argv[2])), nprocs=2)
""",
    )
    outside = tmp_path_factory.mktemp("meet")
    return lambda odd: [python, "spawned.py", outside, str(odd)]


def test_rank_that_is_known_after_the_first_record(twinrun, spawned, home):
    done = twinrun("check", "--json", "--runs", "2", "--no-zoom", "--", *spawned(-1))
    assert done.rc == 0 and done.json["outcome"] == "same", done
    folders = runs_of(home)
    assert [ranks_in(folder) for folder in folders] == [[0, 1], [0, 1]]
    assert sorted({name.name.split(".")[0] for name in (folders[0] / "worlds").iterdir()}) == [
        "0",
        "1",
    ]
    shown = twinrun("show", folders[0]).out
    assert re.search(r"rank 0 of 2 +pid \d+ +main", shown), shown
    assert re.search(r"rank 1 of 2 +pid \d+ +main", shown), shown
    said = twinrun("show", "--provenance", "--json", folders[0]).json
    ranks = said["provenance"]["ranks"] if "provenance" in said else said["ranks"]
    assert [(r["rank"], r["world"]) for r in ranks] == [(0, 2), (1, 2)], ranks
    assert all("torch" in r["versions"] and r["variables"] is not None for r in ranks), ranks


def test_rank_that_was_told_late_is_the_one_that_is_named(twinrun, spawned):
    done = twinrun("check", "--json", "--runs", "2", "--no-zoom", "--", *spawned(1))
    assert done.rc == 1 and done.json["outcome"] == "differ", done
    first = done.json["first"]
    assert first["rank"] == 1 and first.get("process", "main") == "main", first


def test_rank_that_is_not_armed_is_named(twinrun, script, python, tmp_path_factory):
    script(
        "bare.py",
        """
import subprocess, sys, tempfile, time
import torch, torch.distributed as dist

def main(meet, rank):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    net = torch.nn.Linear(4, 2)
"""
        + TRAIN
        + """
if len(sys.argv) == 2:
    meet = tempfile.mktemp(dir=sys.argv[1])
    start = [sys.executable, __file__, meet]
    ranks = [subprocess.Popen([*start, "0"]), subprocess.Popen(["env", "-i", *start, "1"])]
    sys.exit(max(rank.wait() for rank in ranks))
main(sys.argv[1], int(sys.argv[2]))
""",
    )
    outside = tmp_path_factory.mktemp("meet")
    done = twinrun("check", "--json", "--runs", "2", "--no-zoom", "--", python, "bare.py", outside)
    assert done.rc == 3 and done.json["outcome"] == "inconclusive", done
    assert any(
        text.startswith("rank 1 of 2 recorded nothing") for text in done.json["unseen"]
    ), done
    assert any("bare.py" in text for text in done.json["observer"]["unarmed"]), done


# ---------------------------------------------------------------- torchrun that starts ranks again


@pytest.fixture
def elastic(script, python, tmp_path_factory):
    """elastic(FAILS): the options behind the launcher of a job whose rank 1 fails at its first
    attempt: in every run ("always"), or in the first run alone ("once").
    """
    script(
        "elastic.py",
        """
import os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, mark = dist.get_rank(), sys.argv[1]
fails = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and not os.path.exists(mark)
torch.manual_seed(7)
net = torch.nn.Linear(4, 2)
for step in range(4):
    if step == 2 and fails:
        if rank == 0:
            time.sleep(600)  # until torchrun ends it: in a collective it might see the other go
        if len(sys.argv) > 2:
            open(mark, "w").close()
        time.sleep(0.5)  # as at the end
        sys.exit(3)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    opt.zero_grad()
    net(torch.randn(8, 4)).pow(2).mean().backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)
    opt.step()
time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
""",
    )
    mark = tmp_path_factory.mktemp("mark") / "failed"
    options = ["--standalone", "--nproc-per-node=2", "--max-restarts", "2", "elastic.py", mark]
    return lambda fails: options + (["once"] if fails == "once" else [])


# PyTorch 2.13 keeps the store of the first attempt, where gloo then finds addresses of the dead.
STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}


def test_attempts_of_torchrun_are_not_mixed(twinrun, elastic, python, home):
    torchrun = Path(python).parent / "torchrun"
    if not torchrun.exists():
        pytest.skip(f"no torchrun beside {python}")
    done = twinrun(
        *("check", "--json", "--runs", "2", "--no-zoom", "--", torchrun, *elastic("always")),
        env=STORE,
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert any("attempts 0 to 1 was compared with the same" in n for n in done.json["notes"]), done
    assert [ranks_in(folder) for folder in runs_of(home)] == [[0, 0, 1, 1]] * 2


def test_run_that_restarted_against_one_that_did_not(twinrun, elastic, python):
    module = [python, "-m", "torch.distributed.run"]
    done = twinrun(
        *("check", "--json", "--runs", "2", "--no-zoom", "--", *module, *elastic("once")), env=STORE
    )
    assert done.rc == 1 and done.json["outcome"] == "differ", done
    said = "torchrun started the ranks of run 1 again 1 time, those of run 2 0 times"
    assert said in json.dumps(done.json["first"]), done


# ---------------------------------------------------------------- accelerate


@pytest.mark.skipif(not FULL, reason="the example is run; a rank that is odd with TWINRUN_FULL=1")
def test_accelerate_launch(twinrun, script, python, run, home, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)  # it wants all of PyTorch
    program = library_python(python, run, "torch", "accelerate")
    script(
        "train.py",
        """
        import sys
        import torch
        from accelerate import Accelerator
        from accelerate.utils import set_seed
        torch.set_num_threads(1)
        accelerator = Accelerator(cpu=True)
        set_seed(3)
        x = torch.randn(64, 8)
        data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
        net = torch.nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.05)
        net, opt, loader = accelerator.prepare(net, opt, loader)
        for step, (a, b) in enumerate(loader):
            if step == 2 and len(sys.argv) > 1 and accelerator.process_index == 1:
                torch.seed()
                a = a + torch.randn(1).item()
            opt.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(net(a), b))
            opt.step()
        accelerator.end_training()
    """,
    )
    # The ranks are on the processor all the same: the job says so.
    launch = [program, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    check = ("check", "--json", "--runs", "2", "--no-zoom", "--", *launch, "train.py")
    done = twinrun(*check)
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert [ranks_in(folder) for folder in runs_of(home)] == [[0, 1], [0, 1]]
    done = twinrun(*check, "odd")
    assert (
        done.rc == 1 and done.json["first"]["rank"] == 1 and done.json["first"]["step"] == 2
    ), done
