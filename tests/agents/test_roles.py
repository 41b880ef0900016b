# SPDX-License-Identifier: Apache-2.0
"""Ranks of PyTorch that a launcher numbered otherwise are compared by their places in the job's
mesh: a pipeline whose stages change their numbers is the same, and one whose stage differs is not.
"""

import glob
import json
import os
import subprocess
import sys

import pytest
from launch_helper import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
JOB = os.path.join(HERE, "torch_jobs", "stages.py")

pytest.importorskip("torch")


def recorded(home, label, *what):
    here = os.path.join(str(home), "here")
    os.makedirs(here, exist_ok=True)
    done = subprocess.run(
        [os.path.join(BUILD, "cmd", "twinrun"), "record", "--no-telemetry", "--ledger", "none"]
        + ["--home", str(home), "--label", label, "--", PYTHON, "-m", "torch.distributed.run"]
        + ["--standalone", "--nproc-per-node=2", JOB, *what],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        cwd=here,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return glob.glob(os.path.join(str(home), "runs", "*-%s-*" % label))[0]


def judged(home, a, b):
    """(the verdict, its text, what the second reader says) of two runs."""
    command = [os.path.join(BUILD, "cmd", "twinrun"), "diff", "--home", str(home), a, b]
    done = subprocess.run(command + ["--json"], capture_output=True, text=True, timeout=300)
    text = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    return json.loads(done.stdout), text


def rechecked(home, verdict):
    """(exit code, what it printed) of the second reader."""
    path = os.path.join(str(home), "verdict.json")
    with open(path, "w") as f:
        json.dump(verdict, f)
    done = subprocess.run(
        [sys.executable, "-m", "twinrun.recheck", path],
        env=dict(os.environ, PYTHONPATH=os.path.join(os.path.dirname(HERE), "..", "python")),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


MOVED = (
    "ranks are compared by their places in the mesh that both runs declare, dp=1,pp=2, and named "
    "by their numbers in run 1; run 2 numbers 2 of them otherwise: rank 1 (pp 1, dp 0) is rank 0 "
    "there, rank 0 (pp 0, dp 0) is rank 1 there"
)


def test_stages_with_other_numbers(tmp_path):
    straight, turned = recorded(tmp_path, "a", "0,1"), recorded(tmp_path, "b", "1,0")
    other = recorded(tmp_path, "c", "1,0", "1")
    v, text = judged(tmp_path, straight, turned)
    assert v["outcome"] == "same", text
    assert MOVED in v["notes"]
    code, said = rechecked(tmp_path, v)
    assert code == 0, said
    # the second reader looks into the notes of the traces itself: by number these are other ranks
    for c in v["claims"]:
        if c["claim"] == "same-range":
            c["rules"].remove("ranks-by-role")
    code, said = rechecked(tmp_path, v)
    assert code != 0 and "is of rank" in said, said
    v, text = judged(tmp_path, straight, other)
    assert v["outcome"] == "differ", text
    assert MOVED in v["notes"]
    assert (v["first"]["rank"], v["first"]["step"]) == (1, 1), text
    assert "step 1 · rank 1 (pp 1, dp 0) ·" in text
    code, said = rechecked(tmp_path, v)
    assert code == 0, said
