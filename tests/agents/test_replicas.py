# SPDX-License-Identifier: Apache-2.0
"""Ranks of one run that should hold equal weights: what `show` says of real jobs over gloo."""

import glob
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import FULL
from launch_helper import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
JOB = os.path.join(HERE, "torch_jobs", "replicas.py")
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
DDP = "DistributedDataParallel"

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")


def record(home, what, ranks=3, job=JOB):
    here = os.path.join(str(home), "here")
    os.makedirs(here, exist_ok=True)
    done = subprocess.run(
        [TWINRUN, "record", "--no-telemetry", "--ledger", "none", "--home", str(home)]
        + ["--label", what, "--", PYTHON, "-m", "torch.distributed.run", "--standalone"]
        + ["--nproc-per-node=%d" % ranks, job, what],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        cwd=here,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    last = [x for x in done.stderr.splitlines() if x.startswith("twinrun: ") and "weights (" in x]
    Path(home, "last").write_text(json.dumps([x[len("twinrun: ") :] for x in last]))
    return glob.glob(os.path.join(str(home), "runs", "*-%s-*" % what))[0]


def said(folder):
    """What `show` says of the ranks, in words; and the same in --json."""
    out = [
        subprocess.run(
            [TWINRUN, "show", *more, folder], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        for more in ((), ("--json",))
    ]
    lines = [x.split(None, 1)[1] for x in out[0].splitlines() if x.startswith("replicas ")]
    assert json.loads(out[1])["replicas"] == lines
    # record itself ends with those that are not equal
    last = json.loads((Path(folder).parents[1] / "last").read_text())
    assert last == [x for x in lines if not re.match(r"ranks [\d, .]+ hold equal weights", x)]
    return lines


def equal(count, steps=6):
    return ["ranks 0, 1, 2 hold equal weights (%s): %d of them, in %d steps" % (DDP, count, steps)]


def drift(rest):
    return ["ranks 0, 1, 2 should hold equal weights (%s) and do not: %s" % (DDP, rest)]


# Seeded differently, DDP sends rank 0's weights to all. What DDP does not keep equal may differ:
# statistics of BatchNorm, weights without a gradient, and those that the job told it to ignore.
@pytest.mark.parametrize(
    "what, weights",
    [("seeds", 6), ("buffers", 6), ("ignored", 5)]
    + [("plain", 6), ("statistics", 6), ("frozen", 5)] * FULL,
)
def test_equal(tmp_path, what, weights):
    assert said(record(tmp_path, what)) == equal(weights)


def test_one_bit_of_one_rank(tmp_path):
    assert said(record(tmp_path, "flip")) == drift(
        "0.weight is first seen to differ after step 3, where rank 1 differs from the other 2, "
        "which agree; 1 of 6 weights differ, in 3 of 6 steps"
    )


def test_one_bit_before_the_first_step(tmp_path):
    assert said(record(tmp_path, "first")) == drift(
        "0.weight is first seen to differ at the start, where rank 1 differs from the other 2, "
        "which agree; 1 of 6 weights differ, in 6 of 6 steps"
    )


# Nothing but DDP says that ranks should agree: not equal names, nor equal shapes. A hook of the
# job's own may give each rank gradients of its own.
@pytest.mark.parametrize("what", ["raw_seeds", "hook"] + ["raw"] * FULL)
def test_nobody_said_that_they_should(tmp_path, what):
    assert said(record(tmp_path, what)) == []


def test_until_the_job_drops_ddp(tmp_path):
    assert said(record(tmp_path, "dropped")) == equal(6, 3)


@pytest.mark.parametrize("what", ["no_sync", "closure"])
def test_until_gradients_are_not_averaged(tmp_path, what):
    assert said(record(tmp_path, what)) == [
        "whether ranks 0, 1, 2 hold equal weights (%s) is not known from step 2 on: rank 0 stepped "
        "on gradients that were not averaged (no_sync)" % DDP,
        *equal(6, 2),
    ]
