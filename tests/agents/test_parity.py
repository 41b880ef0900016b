# SPDX-License-Identifier: Apache-2.0
"""Ranks of one job are held against each other as they begin: groups that differ are named, once,
and with --require-parity the job is ended. The job itself notices nothing else.
"""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

ROOTED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# one rank of three changes its world before PyTorch is there; EXIT: the job's own exit code
GLOO = """
    import os, sys, time
    rank = int(os.environ["RANK"])
    if rank == 2:
        exec(os.environ.get("ODD", ""))
    import safetensors, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.1)
    print("done", rank, flush=True)
    dist.destroy_process_group()
"""
ODD = {
    "threads": (
        "os.environ['OMP_NUM_THREADS'] = '2'",
        [
            "ranks 0 and 1 have threads 1, rank 2 has 2",
            "ranks 0 and 1 have OMP_NUM_THREADS 1, rank 2 has 2",
        ],
    ),
    "variable": (
        "os.environ['NCCL_ALGO'] = 'Ring'",
        ["rank 2 has NCCL_ALGO Ring, ranks 0 and 1 do not have it"],
    ),
    "library": (
        "sys.path.insert(0, 'other')",
        ["rank 2 has 9.9.9", "have safetensors "],
    ),
    "instructions": (
        "os.environ['ATEN_CPU_CAPABILITY'] = 'default'",
        [
            "rank 2 has ATEN_CPU_CAPABILITY default, ranks 0 and 1 do not have it",
            "have cpu_capability AVX",
        ],
    ),
}
MINE = "os.environ['CUDA_VISIBLE_DEVICES'] = '2'; os.environ['GOMP_CPU_AFFINITY'] = '0'"


@pytest.fixture
def torchrun(twinrun, python, script, light):
    """torchrun(options, odd, steps): the job on three ranks, recorded."""
    program = Path(python).parent / "torchrun"
    if not program.exists():
        pytest.skip(f"no torchrun beside {python}")
    pytest.importorskip("safetensors")
    script("train.py", GLOO)
    script("other/safetensors/__init__.py", "__version__ = '9.9.9'\n")

    def call(*options, odd="", steps=5, verb="record"):
        job = (program, "--standalone", "--nproc-per-node=3", "train.py", str(steps))
        env = {"ODD": odd, "OMP_NUM_THREADS": "1"}
        return twinrun(verb, *options, "--", *job, env=env)

    return call


def test_ranks_that_are_alike_need_no_word(torchrun):
    done = torchrun("--require-parity", odd=MINE)
    assert done.rc == 0 and done.out.count("done") == 3, done
    assert "differ" not in done.err and "not seen" not in done.err, done.err


@pytest.mark.parametrize("what", ODD)
def test_the_odd_rank_is_named_and_the_job_goes_on(torchrun, what):
    code, words = ODD[what]
    done = torchrun(odd=code)
    assert done.rc == 0 and done.out.count("done") == 3, done
    assert done.err.count("the ranks of this job differ: ") == 1, done.err
    for part in words:
        assert part in done.err, (part, done.err)


@pytest.mark.parametrize("verb", ["record", "run", "check"])
def test_a_job_with_an_odd_rank_is_ended(torchrun, verb):
    begin = time.monotonic()
    pin = ("--pin", "hash-seed") if verb == "run" else ()
    done = torchrun("--require-parity", "-q", *pin, odd=ODD["variable"][0], steps=6000, verb=verb)
    assert done.rc == 2 and "done" not in done.out, done
    assert (
        "twinrun: --require-parity ends the job: "
        "rank 2 has NCCL_ALGO Ring, ranks 0 and 1 do not have it" in done.err
    ), done.err
    assert time.monotonic() - begin < 120  # its steps alone would take ten minutes


# ---- small jobs: what is said is the same


def pair(one, other, world=2):
    """Ranks 0 and 1 of a job, each with a variable of its own."""
    ranks = (one, "0"), (other, "1")
    return (
        " & ".join(f"{v} RANK={r} WORLD_SIZE={world} $JOB --steps 3" for v, r in ranks) + " & wait"
    )


@pytest.fixture
def small(twinrun, build):
    job = build / "tests" / "cli" / "job"

    def call(*options, text, verb="record"):
        return twinrun(verb, *options, "--", "sh", "-c", text, env={"JOB": str(job)})

    return call


def test_a_rank_that_was_not_seen_is_no_equal_one(small):
    done = small(text=pair("A=1", "A=1", world=3))
    assert done.rc == 0 and "rank 2 was not seen, so nothing is known of it" in done.err, done
    done = small("--require-parity", text=pair("A=1", "A=1", world=3))
    assert done.rc == 2, done
    assert "--require-parity is not met: rank 2 was not seen" in done.err, done.err


def test_a_job_that_fails_says_so_itself(small):
    done = small("--require-parity", text=pair("A=1", "A=1", world=3) + "; exit 7")
    assert done.rc == 7 and "parity" not in done.err, done
    done = small(text=pair("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=3") + "; exit 7")
    assert done.rc == 7, done
    assert "the ranks of this job differ: rank 0 has OMP_NUM_THREADS 1, rank 1 has 3" in done.err
    done = small("-q", text=pair("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=3"))
    assert done.rc == 0 and done.err == "", done


def test_of_many_differences_some_are_told(small):
    many = " ".join(f"NCCL_X{i}=1" for i in range(7))
    done = small(text=pair(many, "A=1"))
    said = "rank 0 has NCCL_X4 1, rank 1 does not have it; and 2 more (twinrun show --provenance)"
    assert said in done.err, done
    done = small("--runs", "2", text=pair(many, "A=1"), verb="check")
    assert done.err.count("the ranks of this job differ") == 1, done  # of the first run alone
    said = (
        "the ranks had different worlds: rank 0 has NCCL_X0 1, rank 1 does not have it; "
        "and more (twinrun show --provenance)"
    )
    assert said in " ".join(done.out.split()), done


# ---- runs that an engine makes


def test_ranks_of_runs_elsewhere(small, home):
    on = ("--on", "cmd:{command}", "--runs", "2")
    odd, alike = pair("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=3"), pair("A=1", "A=1")
    words = "rank 0 has OMP_NUM_THREADS 1, rank 1 has 3"
    done = small(*on, text=odd, verb="check")
    assert done.rc == 0 and done.err.count(f"the ranks of this job differ: {words}") == 1, done
    done = small("--require-parity", *on, text=odd, verb="check")
    assert done.rc == 2 and f"--require-parity is not met: {words}" in done.err, done
    assert not list((home / "engine").iterdir())
    done = small("--require-parity", *on, text=alike, verb="check")
    assert done.rc == 0 and "parity" not in done.err, done


def test_a_job_with_an_odd_rank_is_ended_elsewhere(small, home):
    text = pair("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=3")
    text += "; sleep 600"
    done = small("--require-parity", "--on", "cmd:{command}", text=text, verb="check")
    assert done.rc == 2 and "--require-parity ends the job: rank 0 has OMP" in done.err, done
    record = json.loads(next((home / "runs").glob("*/run.json")).read_text())
    assert record["outcome"] == "stopped" and "its ranks differ" in record["message"], record


@pytest.mark.parametrize(
    ("odd", "said"), [("2", "of run 2, "), ("2|4", "of run 2 and of 1 more, ")]
)
def test_ranks_of_a_later_run_elsewhere(small, tmp_path, odd, said):
    """An engine may put each run's ranks on other nodes."""
    other = pair("OMP_NUM_THREADS=1", "OMP_NUM_THREADS=3")
    count = f"printf x >> {tmp_path}/n; case $(cat {tmp_path}/n | wc -c) in "
    text = count + f"{odd}) {other};; *) {pair('A=1', 'A=1')};; esac"
    done = small("--on", "cmd:{command}", "--runs", "4", text=text, verb="check")
    said += "the ranks had different worlds: rank 0 has OMP_NUM_THREADS 1, rank 1 has 3"
    assert said in " ".join(done.out.split()), done
    assert "ranks of this job differ" not in done.err, done


def test_a_secret_in_a_variable_stays_one(small):
    planted = "NCCL_NET=https://me:plantedsecret@host/"
    done = small(text=pair(planted, "NCCL_NET=Socket"))
    assert "NCCL_NET" in done.err and "plantedsecret" not in done.err, done.err


@pytest.mark.parametrize("kind", ["openmpi", "mpich"])
def test_ranks_of_mpi(twinrun, build, script, kind):
    program, mpirun = build / "tests" / "agents" / f"mpi_job_{kind}", shutil.which(f"mpirun.{kind}")
    if not mpirun or not os.access(program, os.X_OK):
        pytest.skip(f"no {kind}")
    number = "OMPI_COMM_WORLD_RANK" if kind == "openmpi" else "PMI_RANK"
    script("odd.sh", f'[ "${number}" = 3 ] && export OMP_NUM_THREADS=7\nexec "$@"\n')
    over = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if kind == "openmpi" else []
    for odd in (["sh", "odd.sh"], []):
        job = (mpirun, *over, "-n", "4", *odd, program, "collectives")
        done = twinrun("record", "--", *job, env=ROOTED)
        assert done.rc == 0, done
        said = "rank 3 has OMP_NUM_THREADS 7, ranks 0-2 do not have it" in done.err
        assert said == bool(odd), done.err
        assert ("differ" in done.err) == bool(odd) and "not seen" not in done.err, done.err
        done = twinrun("record", "--require-parity", "--", *job, env=ROOTED)
        assert done.rc == (2 if odd else 0), done
