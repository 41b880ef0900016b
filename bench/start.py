#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs to watch a process that does next to nothing: `record` of a script that imports
PyTorch beside the script alone, and `check` of an unseeded step of a small model, which diverges
at once, beside three runs of it. In turns, processor time, so that what else the machine does
counts little; medians. Prints `name value unit`.
usage: [TWINRUN_BUILD=build] bench/start.py [--full | ROUNDS]
5 rounds take 3 minutes on an idle machine; --full makes 15.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TWINRUN = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve() / "cmd/twinrun"
GIVEN = [int(word) for word in sys.argv[1:] if word.isdigit()]
ROUNDS = (GIVEN or [15 if "--full" in sys.argv else 5])[0]

# as a user has it: what is imported is not compiled each time
ENV = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
JOBS = {
    "import": "import torch",
    "step": """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(4, 8)).sum().backward()
optimizer.step()
""",
}


def used(*argv):
    """Processor time of a command and what it started, in a folder of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(argv, cwd=folder, env=ENV, stdout=-3, stderr=-3)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    found = {}
    for _ in range(ROUNDS):
        for name, verb, times in (("import", "record", 1), ("step", "check", 3)):
            job = [sys.executable, "-c", JOBS[name]]
            alone = used(*job)
            watched = used(TWINRUN, verb, "-q", "--", *job)
            found.setdefault("start.%s.over" % verb, []).append(watched - times * alone)
            found.setdefault("start.%s.ratio" % verb, []).append(watched / alone)
    for name, values in sorted(found.items()):
        unit = "ratio" if name.endswith("ratio") else "s"
        for what, value in (
            ("", statistics.median(values)),
            (".low", min(values)),
            (".high", max(values)),
        ):
            print("%s%s %.3f %s" % (name, what, value, unit))


if __name__ == "__main__":
    main()
