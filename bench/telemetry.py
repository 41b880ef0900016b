#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What telemetry costs: the processor time of steps with it over that without, and the launcher's
own while the job runs.

telemetry_blocks makes blocks of steps in drawn order in one process; control: without twice, what
this machine can tell. The launcher's share is what its threads
used (schedstat) over the middle of a run, less that of a run without telemetry. Prints `name value
unit`; intervals: 95% of the median.
usage: [TWINRUN_BUILD=build] bench/telemetry.py [--full | ROUNDS]
120 rounds take 2 minutes; --full makes 400.
"""

import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("TWINRUN_BUILD", "build")).resolve()
GIVEN = [int(word) for word in sys.argv[1:] if word.isdigit()]
ROUNDS = (GIVEN or [400 if "--full" in sys.argv else 120])[0]
BEGIN_S, END_S = 1, 6  # of a run of 6.5 s


def median_with_interval(values):
    """By order statistics: no assumption about how times are distributed."""
    values, n = sorted(values), len(values)
    tail, rank = 0.0, 0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if tail > 0.025:
            break
        rank += 1
    return statistics.median(values), values[max(rank - 1, 0)], values[min(n - rank, n - 1)]


def show(name, values, unit):
    for suffix, value in zip(("", ".low", ".high"), median_with_interval(values)):
        print("telemetry.%s%s %.5f %s" % (name, suffix, value, unit))


def threads_s(pid):
    """Processor seconds of the threads of a process."""
    return (
        sum(
            int((task / "schedstat").read_text().split()[0])
            for task in Path("/proc/%d/task" % pid).iterdir()
        )
        * 1e-9
    )


def launcher_share(home, *options):
    job = subprocess.Popen(
        [
            BUILD / "cmd/twinrun",
            "record",
            "-q",
            "--level",
            "steps",
            *options,
            "--",
            BUILD / "tests/agents/telemetry_job",
            "--seconds",
            str(END_S + 0.5),
        ],
        env=dict(os.environ, TWINRUN_HOME=home),
    )
    time.sleep(BEGIN_S)
    begin, used = time.monotonic(), threads_s(job.pid)
    time.sleep(END_S - BEGIN_S)
    share = (threads_s(job.pid) - used) / (time.monotonic() - begin)
    assert job.wait() == 0
    return share


def main():
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "telemetry").mkdir()
        out = subprocess.run(
            [BUILD / "bench/telemetry_blocks", home, str(ROUNDS)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        rounds = [tuple(map(float, line.split())) for line in out.splitlines()]
        assert list((Path(home) / "telemetry").iterdir()), "no row was written"
        show("job.ratio", [on / off for on, off, _, _ in rounds], "ratio")
        show("control.ratio", [again / off for _, off, again, _ in rounds], "ratio")
        show("job.inside", [inside for _, _, _, inside in rounds], "of_the_step")
        beside = []
        for _ in range(max(3, ROUNDS // 40)):
            arms = [(), ("--no-telemetry",)]
            random.shuffle(arms)
            found = {arm: launcher_share(home, *arm) for arm in arms}
            beside.append(found[()] - found[("--no-telemetry",)])
        print("telemetry.launcher.share %.5f of_one_core" % statistics.median(beside))
        print("telemetry.launcher.share.low %.5f of_one_core" % min(beside))
        print("telemetry.launcher.share.high %.5f of_one_core" % max(beside))


main()
