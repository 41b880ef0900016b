#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The large case of twinrun simulate: 65,536 ranks and 100,000 elements, sampled. Rows `name value
unit`; the bar is a minute on two cores.
"""

import json
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TWINRUN = os.path.join(
    os.environ.get("TWINRUN_BUILD", os.path.join(ROOT, "build")), "cmd", "twinrun"
)

for algorithm in ("ring", "double-tree", "arrival") if "--full" in sys.argv else ("ring",):
    began, before = time.monotonic(), os.times()
    done = subprocess.run(
        [
            TWINRUN,
            "simulate",
            "--ranks",
            "65536",
            "--elements",
            "100000",
            "--algorithm",
            algorithm,
            "--alpha",
            "5us",
            "--beta",
            "0.04ns",
            "--json",
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    wall, after = time.monotonic() - began, os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    found = json.loads(done.stdout)
    additions = 65536 * found["sampled"] * found["trials_per_algorithm"]
    print("simulate/%s-65536x100000 %.1f s-wall" % (algorithm, wall))
    print("simulate/%s-65536x100000 %.1f s-processor" % (algorithm, cpu))
    print("simulate/%s-65536x100000 %.2f of-a-minute" % (algorithm, wall / 60))
    print("simulate/%s-65536x100000 %d elements-sampled" % (algorithm, found["sampled"]))
    print(
        "simulate/%s-65536x100000 %.2f ns-per-addition" % (algorithm, cpu / additions * 1e9),
        flush=True,
    )
