#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Agent memory: how much larger a training process is under `twinrun record` at the default level
than alone.

Usage: torch_memory.py          Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Trains the models of torch_overhead.py for 60 steps, alone and recorded in turns, and reads the peak
of the process's own resident memory (VmHWM) at its end. Prints rows `name value unit`: medians of
the differences of neighbouring runs.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = (
    """
import sys
sys.path.insert(0, %r)
import torch, torch_overhead
torch.manual_seed(0)
model, batch = getattr(torch_overhead, sys.argv[1])(torch)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = batch()
for _ in range(60 if sys.argv[1] != "transformer" else 12):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
"""
    % HERE
)
ROUNDS = 5


def peak_kib(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def main():
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    home = tempfile.mkdtemp(prefix="twinrun-bench-")
    record = [os.path.join(build, "cmd", "twinrun"), "record", "-q", "--home", home, "--"]
    try:
        for name in ("mlp", "cnn", "transformer"):
            job = [sys.executable, "-c", JOB, name]
            more = [peak_kib(record + job) - peak_kib(job) for _ in range(ROUNDS)]
            print("%s_agent_memory %.1f MiB" % (name, statistics.median(more) / 1024))
            print("%s_agent_memory_most %.1f MiB" % (name, max(more) / 1024), flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
