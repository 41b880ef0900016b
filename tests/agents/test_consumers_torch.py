# SPDX-License-Identifier: Apache-2.0
"""Who draws from torch's generator (`TWINRUN_CONSUMERS=torch-draws`): the job's own lines, and
whether anybody has seeded it.
"""

import os

import pytest
from conftest import FULL

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")

JOB = """
import torch
%s
weight = torch.randn(4)
for step in range(2):
    noise = torch.empty(4).uniform_()
print(float((weight * noise).sum()))
"""


def said(twinrun, python, home, script, seeding):
    script("draws.py", JOB % seeding)
    done = twinrun(
        "record",
        "-q",
        "--",
        python,
        "draws.py",
        env=dict(os.environ, TWINRUN_CONSUMERS="torch-draws"),
    )
    assert done.rc == 0, done
    newest = max((home / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    return [
        line.split("\t")[3:]
        for line in (newest / "factors").read_text().splitlines()
        if "consumer." in line
    ]


def test_lines_that_draw(twinrun, python, home, script):
    lines = said(twinrun, python, home, script, "")
    assert lines[0] == ["consumer.torch-seeded", "no"]
    assert [value.split(" | ")[0] for _, value in lines[1:]] == ["draws.py:3", "draws.py:5"]
    assert [value.split(" | ")[2] for _, value in lines[1:]] == [
        "weight = torch.randn(4)",
        "noise = torch.empty(4).uniform_()",
    ]


def test_a_seed_is_no_draw(twinrun, python, home, script):
    lines = said(twinrun, python, home, script, "torch.manual_seed(3)")
    assert [value.split(" | ")[0] for _, value in lines] == ["draws.py:3", "draws.py:5"]


@pytest.mark.parametrize(
    "seeding",
    [
        "torch.default_generator.manual_seed(3)",
        "torch.random.manual_seed(3)",
        "torch.default_generator.set_state(torch.Generator().manual_seed(3).get_state())",
    ],
)
def test_every_way_to_seed_is_seen(twinrun, python, home, script, seeding):
    lines = said(twinrun, python, home, script, seeding)
    assert [key for key, _ in lines] == ["consumer.torch-draws"] * 2


@pytest.mark.skipif(not FULL, reason="a search of about 15 runs: with --full")
def test_a_search_says_that_nobody_seeded(twinrun, python, script):
    script("draws.py", JOB % "")
    done = twinrun("isolate", "-q", "--pin", "seed.torch,hash-seed", "--", python, "draws.py")
    assert done.rc == 1 and "seed.torch" in done.out, done
    assert (
        "torch was never seeded: nothing calls torch.manual_seed before these lines draw"
        in done.out
    ), done
