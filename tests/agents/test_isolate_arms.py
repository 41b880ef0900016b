# SPDX-License-Identifier: Apache-2.0
"""`twinrun isolate --a --b` on a PyTorch job (TWINRUN_FULL=1: a dozen runs): a sum over two threads
is another sum than over one.
"""

import os
import shlex

import pytest

from conftest import FULL

JOB = """
import os, sys, torch
torch.manual_seed(0)
torch.set_num_threads(int(os.environ["THREADS"]))
x = torch.randn(2_000_003)
layer = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=.1)
for step in range(3):
    loss = layer(x[:4]).pow(2).sum() + x.sum() * layer.weight.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.skipif(not FULL, reason="a dozen runs of PyTorch: TWINRUN_FULL=1")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_threads_of_a_reduction(twinrun, python, work):
    (work / "job.py").write_text(JOB)
    command = f"{shlex.quote(python)} job.py"
    done = twinrun(
        "isolate",
        "--json",
        "-q",
        "--a",
        f"THREADS=1 {command}",
        "--b",
        f"THREADS=2 OTHER=1 {command} --workers 2",
        timeout=900,
    )
    assert done.rc == 1, done
    report = done.json
    assert [cause["factor"] for cause in report["causes"]] == ["env:THREADS"], done
    assert report["arms"]["agrees"] == f"THREADS=1 OTHER=1 {command} --workers 2"
    assert report["runs_used"] <= 24
