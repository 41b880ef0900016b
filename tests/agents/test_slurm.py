# SPDX-License-Identifier: Apache-2.0
"""A real Slurm of four nodes on this machine (slurm_here.py): jobs that srun and sbatch start, and
runs that --on slurm makes there.
"""

import json
import os
import signal
import sys
import time

import pytest
import slurm_here
from test_engine import JOB, nodes_of, notes, nothing_left


@pytest.fixture
def check(twinrun, script, slurm):
    """check(...options, job=[...], runs=, env=) -> Result of `twinrun check --on slurm`."""
    script("job.py", JOB)

    def call(*options, on="slurm", runs=3, env=None):
        return twinrun(
            *("check", "--json", "--no-cases", "--no-zoom", "--runs", runs, "--on", on, *options),
            *("--", sys.executable, "job.py"),
            env={**slurm.environment, "TWINRUN_ENGINE_GRACE": "1", **(env or {})},
        )

    return call


@pytest.fixture
def instead(slurm, tmp_path):
    """instead(name, text): a program of Slurm's that lies; `$REAL` in it is the true one."""

    def write(name, text):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        real = slurm_here.shutil.which(name, path=slurm_here.PATH)
        path = folder / name
        path.write_text(f"#!/bin/bash\nREAL={real}\n{text}\n")
        path.chmod(0o755)
        return {"PATH": f"{folder}:{slurm_here.PATH}"}

    return write


# ---------------------------------------------------------------- jobs that Slurm's programs start


def test_srun_in_an_allocation(twinrun, slurm, script, home, build, run, work):
    script("job.py", JOB)
    done = run(
        ["salloc", "-Q", "-n", "4", build / "cmd" / "twinrun", "check", "--json", "--runs", "2"]
        + ["--", "srun", "-n", "4", sys.executable, "job.py"],
        cwd=work,
        env={**slurm.environment, "TWINRUN_HOME": str(home)},
    )
    assert done.rc == 0 and done.json["outcome"] == "same", done
    for folder in (home / "runs").iterdir():
        # a trace for each task, by its rank
        assert sorted(p.name.split(".")[0] for p in folder.glob("ranks/*.twt")) == list("0123")


def test_srun_names_the_rank(twinrun, slurm, script):
    late = 'if os.environ["SLURM_PROCID"] == "2" and os.environ["SLURM_JOB_ID"][-1] in "13579": bad = 1'
    script("job.py", JOB.replace("state = array", late + "\nstate = array", 1))
    # without an allocation each run has one of its own, whose number is odd or even
    done = twinrun(
        *("check", "--json", "--no-zoom", "--runs", 6, "--", "srun", "-n", "4"),
        *(sys.executable, "job.py"),
        env=slurm.environment,
    )
    assert done.rc == 1 and done.json["first"]["rank"] == 2, done


def test_sbatch_wait(twinrun, slurm, script, home):
    script("job.py", JOB)
    script("batch.sh", f"#!/bin/sh\n#SBATCH -n 2\nexec srun {sys.executable} job.py\n")
    done = twinrun(
        *("check", "--json", "--no-zoom", "--runs", 2, "--ignore", "line:^Submitted batch job"),
        *("--ignore", "file:slurm-*.out", "--", "sbatch", "--wait", "batch.sh"),
        env=slurm.environment,
    )
    assert done.rc == 0, done
    folder = next((home / "runs").iterdir())
    assert sorted(p.name.split(".")[0] for p in folder.glob("ranks/*.twt")) == ["0", "1"]


# ---------------------------------------------------------------- runs that Slurm makes


def test_side_by_side(check, home, slurm):
    done = check(runs=9, env={"JOB_S": "1"})
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert len(set(nodes_of(home).values())) >= 3  # which are free, Slurm decides
    assert "the runs were made by slurm on" in notes(done)
    jobs = [json.loads(p.read_text())["node"]["job"] for p in home.glob("runs/*/run.json")]
    assert len({j.split("_")[0] for j in jobs}) == 2  # the first run, and one array for the others
    assert nothing_left(home)


@pytest.mark.parametrize(
    ("place", "allowed"),
    [
        ("pin:n2", {"n2"}),
        ("avoid:n1,n2", {"n3", "n4"}),
        ("type:new", {"n3", "n4"}),
        ("any", set(slurm_here.NODES)),
        ("same-type", set(slurm_here.NODES)),
    ],
)
def test_place(check, home, place, allowed):
    done = check("--place", place, runs=3)
    assert done.rc == 0 and set(nodes_of(home).values()) <= allowed, done


def test_options_of_sbatch(check, home):
    done = check(on="slurm:--nodelist=n4 -n 1")
    assert done.rc == 0 and set(nodes_of(home).values()) == {"n4"}, done


def test_an_option_that_sbatch_refuses(check):
    done = check(on="slurm:--partition=nowhere")
    assert done.rc == 2 and "partition" in done.err, done


def test_a_node_that_computes_otherwise(check):
    done = check("--all", runs=8, env={"BAD_NODES": "n3", "JOB_S": "0.5"})
    assert done.rc == 1 and done.json["first"]["step"] == 2, done
    assert "only runs on node n3 diverge" in notes(done), done


def test_isolate_names_a_node_that_computes_otherwise(twinrun, slurm, script):
    script("job.py", JOB)
    done = twinrun(
        *("isolate", "--json", "--no-cases", "--jobs", 4, "--pin", "node,hash-seed"),
        *("--on", "slurm", "--", sys.executable, "job.py"),
        env={**slurm.environment, "TWINRUN_ENGINE_GRACE": "1", "BAD_NODES": "n3"},
    )
    assert done.rc == 1 and [c["factor"] for c in done.json["causes"]] == ["node"], done
    assert "only runs on node n3 diverge" in notes(done), done
    assert "--place avoid:n3" in done.json["next"]


# The second and the third task of an array say that they are there, and wait for `go`.
HELD = """
task, hold = os.environ["SLURM_ARRAY_TASK_ID"], os.environ["HOLD"]
if task in "12":
    os.close(os.open(f"{hold}/here.{task}", os.O_CREAT))
    while not os.path.exists(f"{hold}/go"):
        time.sleep(0.05)
"""


def test_cancelled_runs_are_made_again(check, start, slurm, script, tmp_path):
    """An administrator takes two runs away while they run."""
    script("job.py", JOB.replace("\nstate = array", HELD + "\nstate = array", 1))
    start(
        [
            *("bash", "-c"),
            "for t in 1 2; do until [ -e here.$t ]; do sleep 0.1; done; "
            'scancel $(squeue -h -t R -r -o %i | grep "_$t$"); done; touch go',
        ],
        cwd=tmp_path,
        env={**os.environ, **slurm.environment},
    )
    done = check(runs=4, env={"HOLD": str(tmp_path)})
    assert done.rc == 0 and done.json["outcome"] == "same", done
    assert "had to be made again and count" in notes(done)


def test_requeued_runs_are_refused(check, start, slurm):
    start(
        [
            *("bash", "-c"),
            "while :; do j=$(squeue -h -t R -r -o %i | grep '_1$'); [ -n \"$j\" ] && break; sleep 0.1; "
            "done; sleep 1; scontrol requeue $j; sleep 1; scontrol update JobId=$j StartTime=now",
        ],
        env={**os.environ, **slurm.environment},
    )
    done = check(runs=3, env={"JOB_S": "3"})
    assert done.rc == 0 and done.json["outcome"] == "same", done


# ---------------------------------------------------------------- a Slurm that lies


def test_a_run_on_another_node(check, instead, home):
    lie = instead("sbatch", 'exec $REAL "${@/--nodelist=n2/--nodelist=n3}"')
    done = check("--place", "pin:n2", env=lie)
    assert done.rc == 2 and "a node that was not asked for" in done.err, done


def test_completed_and_nothing_is_there(check, instead):
    lie = instead("sbatch", 'n=$#; set -- "${@:1:n-1}"; exec $REAL "$@" --wrap=true')
    done = check(env=lie)
    assert done.rc == 2 and "a run was lost 4 times by slurm" in done.err, done


def test_lines_of_squeue_that_make_no_sense(check, instead):
    lie = instead(
        "squeue", "echo 'slurm_load_jobs: hm'; echo '|||||||'; echo 'x|y|z'; exec $REAL \"$@\""
    )
    done = check(env={**lie, "JOB_S": "1"})
    assert done.rc == 0 and "made again" not in notes(done), done


def test_squeue_that_is_away(check, instead):
    lie = instead(
        "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller'; exit 1"
    )
    done = check(env={**lie, "JOB_S": "1"})
    assert done.rc == 0 and "made again" not in notes(done), done


def test_no_slurm_here(twinrun):
    done = twinrun("check", "--on", "slurm", "--", "true", env={"PATH": "/nowhere"})
    assert done.rc == 2 and "no sbatch" in done.err, done


def test_ctrl_c_empties_the_queue(slurm, build, start, home, script, work):
    script("job.py", JOB)
    process = start(
        [
            *(build / "cmd" / "twinrun", "check", "--on", "slurm", "--runs", "30", "--"),
            *(sys.executable, "job.py"),
        ],
        cwd=work,
        env={**os.environ, **slurm.environment, "TWINRUN_HOME": str(home), "JOB_S": "2"},
    )
    until = time.monotonic() + 60
    while len(list(home.glob("runs/*"))) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert nothing_left(home)
    until = time.monotonic() + 60
    while slurm.call("squeue", "-h").strip() and time.monotonic() < until:
        time.sleep(0.2)
    assert not slurm.call("squeue", "-h").strip()
