#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What telemetry costs: the processor time of a job of equal steps with it over that without, and the launcher's own.

Runs take turns, in drawn order, at level `steps`; processor time and not elapsed time, which other load would drown. Prints `name value unit`.
usage: [TWINRUN_BUILD=build] bench/telemetry.py [ROUNDS]
"""
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 9
STEPS, SPIN = 600, 1000000  # steps of about 2 ms


def run(home, *options):
    """Seconds of processor time: of the job, as it counts itself, and of all else that recording takes; elapsed seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([BUILD / "cmd/twinrun", "record", "-q", "--level", "steps", *options, "--", BUILD / "tests/agents/telemetry_job", "--steps", str(STEPS), "--spin", str(SPIN)],
                         env=dict(os.environ, TWINRUN_HOME=home), check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    job, elapsed = map(float, out.split())
    return job, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - job, elapsed


def main():
    ratios, control, beside, elapsed = [], [], [], []
    with tempfile.TemporaryDirectory() as home:
        run(home)
        for _ in range(ROUNDS):
            arms = [((), 0), (("--no-telemetry",), 1), (("--no-telemetry",), 2)]
            random.shuffle(arms)
            found = {}
            for options, arm in arms:
                found[arm] = run(home, *options)
            ratios.append(found[0][0] / found[1][0])
            control.append(found[2][0] / found[1][0])
            beside.append(found[0][1] - found[1][1])
            elapsed.append(found[0][2])
    for name, values in (("job", ratios), ("control", control)):  # control: the same without telemetry twice, what this machine can tell
        values.sort()
        print("telemetry.%s.cpu_ratio %.4f ratio" % (name, statistics.median(values)))
        print("telemetry.%s.cpu_ratio.low %.4f ratio" % (name, values[len(values) // 6]))
        print("telemetry.%s.cpu_ratio.high %.4f ratio" % (name, values[-1 - len(values) // 6]))
    print("telemetry.launcher.share %.4f of_one_core" % (statistics.median(beside) / statistics.median(elapsed)))


main()
