# SPDX-License-Identifier: Apache-2.0
"""The count of operations that PyTorch lists as nondeterministic: right, and without any effect on what PyTorch does."""
import subprocess

import pytest

JOB = """
import sys, warnings, torch
if sys.argv[1] == "raise": torch.use_deterministic_algorithms(True)
if sys.argv[1] == "warn": torch.use_deterministic_algorithms(True, warn_only=True)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    try:
        print(torch.zeros(5).put_(torch.tensor([1, 2]), torch.ones(2)))
    except RuntimeError as error:
        print("raised", error)
"""


@pytest.mark.parametrize("mode,calls", [("off", 5), ("warn", 5), ("raise", 5)])
def test_alerts_are_counted_and_passed_on(twinrun, python, tmp_path, mode, calls):
    job = tmp_path / "job.py"
    job.write_text(JOB)
    bare = subprocess.run([python, str(job), mode], capture_output=True, text=True)
    seen = twinrun("record", "-q", "--", python, str(job), mode, cwd=tmp_path)
    assert (seen.rc, seen.out, seen.err) == (bare.returncode, bare.stdout, bare.stderr)
    assert ("raised" in bare.stdout) == (mode == "raise")
    notes = twinrun("show", "last", "--notes", cwd=tmp_path).out
    lines = [line.split(maxsplit=1) for line in notes.splitlines()]
    assert ["nondeterministic.alerts", f"{calls} put_"] in lines
    assert lines.count(["nondeterministic.first", "put_"]) == 1
