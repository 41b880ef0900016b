#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long until the verdict: `check` of workloads/cnn.py over one run of it by itself, in turns.

The job diverges most often in its first steps, and so do the reruns; a round in which none diverges
has more reruns or fewer, so the ratio is shown with how many runs and reruns a round took. `same` is
the job with --deterministic: three runs that agree, and no zoom. Elapsed time and processor time;
medians. Prints `name value unit`.
usage: [TWINRUN_BUILD=build] bench/check.py [--full | ROUNDS]
5 rounds take 3 minutes on an idle machine; --full makes 15.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve()
GIVEN = [int(word) for word in sys.argv[1:] if word.isdigit()]
ROUNDS = (GIVEN or [15 if "--full" in sys.argv else 5])[0]


def timed(argv, **more):
    """(elapsed, processor time) of a command and what it started."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    elapsed, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return elapsed, used


def one_round(name, job, found):
    with tempfile.TemporaryDirectory() as folder:
        alone = timed(job, cwd=folder)
    with tempfile.TemporaryDirectory() as folder:
        checked = timed([BUILD / "cmd/twinrun", "check", "-q", "--", *job], cwd=folder)
        made = list((Path(folder) / ".twinrun/runs").iterdir())
    reruns = sum("-zoom_" in run.name for run in made)
    for what, value in (
        ("ratio", checked[0] / alone[0]),
        ("cpu.ratio", checked[1] / alone[1]),
        ("alone", alone[0]),
        # what stands beside the goal of three runs and two seconds
        ("over", checked[0] - 3 * alone[0]),
        ("runs", len(made) - reruns),
        ("reruns", reruns),
    ):
        found.setdefault((name, what), []).append(value)


def main():
    job, found = [sys.executable, str(ROOT / "workloads/cnn.py")], {}
    for _ in range(ROUNDS):
        one_round("differ", job, found)
        one_round("same", [*job, "--deterministic"], found)
    units = {"ratio": "ratio", "cpu.ratio": "ratio", "alone": "s", "over": "s"}
    for (name, what), values in sorted(found.items()):
        unit = units.get(what, "runs")
        print("check.%s.%s %.3f %s" % (name, what, statistics.median(values), unit))
        print("check.%s.%s.low %.3f %s" % (name, what, min(values), unit))
        print("check.%s.%s.high %.3f %s" % (name, what, max(values), unit))


if __name__ == "__main__":
    main()
