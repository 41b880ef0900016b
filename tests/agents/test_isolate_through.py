# SPDX-License-Identifier: Apache-2.0
"""`twinrun isolate --through`: generators of the job's own that nobody seeded are found, whatever
library they belong to.
"""

import os
import shlex

import pytest
from conftest import FULL

NUMPY = """
import os, numpy
os.urandom(4)
generator = numpy.random.default_rng()
for step in range(3):
    print("loss", generator.standard_normal())
"""

TORCH = """
import torch
torch.manual_seed(0)
generator = torch.Generator()
generator.seed()
layer = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=.1)
for step in range(3):
    loss = layer(torch.randn(4, 3, generator=generator)).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def searched(twinrun, python, script, text, pins):
    script("job.py", text)
    command = f"{shlex.quote(python)} job.py"
    done = twinrun(
        "isolate",
        "--json",
        "-q",
        "--through",
        *pins,
        "--a",
        f"{command} one",
        "--b",
        f"{command} two",
        timeout=900,
    )
    assert done.rc == 1, done
    (cause,) = done.json["causes"]
    assert done.json["through"] == {"a_again": {"trials": 1, "diverged": 1}}
    return cause["factor"], cause["where"]


def test_a_generator_of_numpy(twinrun, python, script):
    """The line that made it is named, and no other line that asks the system for random bytes."""
    pytest.importorskip("numpy")
    found = searched(twinrun, python, script, NUMPY, ["--pin", "seed.numpy,clock"])
    assert found == ("seed.numpy", ["job.py:3, 1 call: generator = numpy.random.default_rng()"])


@pytest.mark.skipif(not FULL, reason="a search of about 15 runs of PyTorch: with --full")
def test_a_generator_of_torch(twinrun, python, script, light):
    pytest.importorskip("torch")
    factor, where = searched(twinrun, python, script, TORCH, [])
    assert (factor, where) == ("entropy", ["job.py:4, 1 call: generator.seed()"])


def test_what_asks_for_numpy_seeds(twinrun, python, home, script):
    """`TWINRUN_CONSUMERS=numpy-seeds`: a library makes the generator, the job's line stands; seeded
    ones are not named.
    """
    pytest.importorskip("numpy")
    script(
        "job.py",
        "import numpy\nnumpy.random.default_rng(3)\nnumpy.random.RandomState()\nnumpy.random.PCG64()\nnumpy.random.rand()\n",
    )
    done = twinrun(
        "record",
        "-q",
        "--",
        python,
        "job.py",
        env=dict(os.environ, TWINRUN_CONSUMERS="numpy-seeds"),
    )
    assert done.rc == 0, done
    newest = max((home / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    lines = [
        line.split("\t")[3:]
        for line in (newest / "factors").read_text().splitlines()
        if "consumer." in line
    ]
    assert [value.split(" | ")[0] for _, value in lines] == ["job.py:3", "job.py:4"]
