#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent costs each step whatever the size of the model, and whether its memory grows.

Usage: torch_fixed.py          Environment: TWINRUN_BUILD, the build folder (default: build beside bench);
BENCH_STEPS: how long memory is watched (default 100,000 steps).

A model of ten tensors (five linear layers of eight) trains in one process, steps in turns without
and with recording at the default level. Prints rows `name value unit`: `fixed_cost`, the median
over pairs of neighbouring steps of the processor time of this thread with recording less that
without; `_tenth`, the tenth percentile, which other processes disturb less. Then all steps are
recorded: `growth` is the resident memory at the end less that after the first tenth.
"""

import os
import shutil
import statistics
import sys
import time

from torch_overhead import arm

PAIRS = 3000
STEPS = int(os.environ.get("BENCH_STEPS", 100000))


def resident_mib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


def trainer(torch):
    """A function that makes one step, and returns the processor time that it took."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(5)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(4, 8), torch.randn(4, 8)

    def step():
        began = time.thread_time_ns()
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        return time.thread_time_ns() - began

    return step


def fixed_cost(step):
    core, written = sys.modules["_twinrun_agent.core"], sys.modules["_twinrun_agent.written"]
    for _ in range(50):
        step()
    alone, more = [], []
    for i in range(PAIRS):
        found = {}
        for on in (i % 2 == 0, i % 2 == 1):
            core.S.on = on
            if on:
                # what the step without recording did to the weights is no line's doing
                written.resync()
            found[on] = step()
        alone.append(found[False] / 1e6)
        more.append((found[True] - found[False]) / 1e6)
    core.S.on = True
    written.resync()
    print("fixed_step %.3f ms" % statistics.median(alone))
    print("fixed_cost %.3f ms" % statistics.median(more))
    print("fixed_cost_tenth %.3f ms" % statistics.quantiles(more, n=10)[0], flush=True)


def growth(step):
    for _ in range(STEPS // 10):
        step()
    first = resident_mib()
    for _ in range(STEPS - STEPS // 10):
        step()
    print("growth_steps %d count" % STEPS)
    print("growth %.1f MiB" % (resident_mib() - first))


def main():
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "build"
    )
    folder = arm(os.path.join(build, "agents", "libtwinrun.so"))
    import torch

    torch.set_num_threads(1)
    step = trainer(torch)
    fixed_cost(step)
    growth(step)
    sys.modules["_twinrun_agent.native"].library().close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
