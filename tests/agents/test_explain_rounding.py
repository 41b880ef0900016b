# SPDX-License-Identifier: Apache-2.0
"""check --explain rounding from the command line; what it judges: tests/truth/test_rounding.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build"))
JOB = """
import sys, torch
torch.manual_seed(0)
m = torch.nn.Linear(8, 8)
o = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(4, 8)
how = sys.argv[1]
for i in range(2):
    o.zero_grad()
    y = m(x)
    if how == "bug":
        y = y * (torch.rsqrt(y.pow(2).mean(-1, keepdim=True)) + 1e-5)
    elif how == "new":
        y = y / torch.sqrt((y * y).sum(-1, keepdim=True) / 8 + 1e-5)
    else:
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    loss = (y ** 3).sum()
    loss.backward()
    o.step()
    print("loss", loss.item())
"""


def said(folder, how, **env):
    (folder / "job.py").write_text(JOB)
    arm = "%s job.py " % sys.executable
    command = [BUILD.resolve() / "cmd/twinrun", "check", "--no-zoom", "--no-clock", "--runs", "2"]
    command += ["--explain", "rounding", "--a", arm + "old", "--b", arm + how]
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **env},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 1, done.stderr
    return " ".join(done.stdout.split())


def test_an_epsilon_outside_of_the_root_is_beyond_rounding(tmp_path):
    text = said(tmp_path, "bug")
    assert "beyond rounding: aten.rsqrt.default of B at job.py:12 in <module>" in text
    assert " times the bound)" in text
    assert "in its place A has aten.rsqrt.default at job.py:16 in <module>" in text


def test_another_order_is_rounding(tmp_path):
    text = said(tmp_path, "new")
    assert "rounding or bug, first step: rounding; operations of B: " in text
    assert " equal, 14 rounding, 11 between values that A has, 0 not known, 0 behind the" in text
    assert "beyond rounding" not in text


def test_without_a_pytorch_for_the_judge_it_is_not_known(tmp_path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "python3").write_text("#!/bin/sh\nexit 1\n")
    (fake / "python3").chmod(0o755)
    text = said(tmp_path, "new", PATH="%s:%s" % (fake, os.environ["PATH"]))
    assert "rounding or bug: not known: the operations were recorded and could not" in text
