# SPDX-License-Identifier: Apache-2.0
"""The count of operations that PyTorch lists as nondeterministic: right, and without any effect on
what PyTorch does.
"""

import subprocess

JOB = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step(mode):
    torch.use_deterministic_algorithms(mode != "off", warn_only=mode == "warn")
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    try:
        print(mode, torch.zeros(5).put_(torch.tensor([1, 2]), torch.ones(2)))
    except RuntimeError as error:
        print(mode, "raised", error)

for mode, times in (("off", 1), ("warn", 2), ("raise", 4)):
    for _ in range(times):
        step(mode)
"""


def test_alerts_are_counted_and_passed_on(twinrun, python, tmp_path):
    """Other counts in each mode: their sum tells which mode's calls were missed."""
    job = tmp_path / "job.py"
    job.write_text(JOB)
    bare = subprocess.run([python, str(job)], capture_output=True, text=True)
    seen = twinrun("record", "-q", "--", python, str(job), cwd=tmp_path)
    assert (seen.rc, seen.out, seen.err) == (bare.returncode, bare.stdout, bare.stderr)
    assert [line.split()[0] for line in bare.stdout.splitlines() if " raised " in line] == [
        "raise"
    ] * 4 and "UserWarning" in bare.stderr
    notes = twinrun("show", "last", "--notes", cwd=tmp_path).out
    lines = [line.split(maxsplit=1) for line in notes.splitlines()]
    assert ["nondeterministic.alerts", "7 put_"] in lines
    assert lines.count(["nondeterministic.first", "put_"]) == 1
