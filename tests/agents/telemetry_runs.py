# SPDX-License-Identifier: Apache-2.0
"""Run folders with telemetry, for the tests of telemetry: recorded by the real tool, and with
counters that a test writes in place of the recorded ones.
"""

import json
import os
import shutil
import subprocess

import pytest

from launch_helper import BUILD

JOB = BUILD / "tests" / "agents" / "telemetry_job"
TWINRUN = BUILD / "cmd" / "twinrun"


def twinrun(home, *args, check=True):
    done = subprocess.run(
        [TWINRUN, *map(str, args)],
        env=dict(os.environ, TWINRUN_HOME=str(home)),
        capture_output=True,
        text=True,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def newest(home):
    return max(
        (home / "runs").iterdir(),
        key=lambda d: json.loads((d / "run.json").read_text())["start_realtime_ns"],
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    home = tmp_path_factory.mktemp("recorded")
    twinrun(home, "record", "-q", "--", JOB, "--train", "5")
    return home


def simulate(
    folder,
    rng,
    slow,
    column=None,
    level=None,
    rate=None,
    steps=400,
    step_s=0.01,
    ranks=1,
    ran_s=None,
    waits=0.0,
    bytes_per_step=None,
):
    """Writes telemetry of a run that is `slow` times slower from a random step to another one;
    `column` of the machine moves with it. ran_s: the thread's processor time in each step (what is
    left of it: waiting); waits: seconds per second without a processor.
    """
    first = rng.randint(steps // 4, steps // 2)
    last = first + rng.randint(steps // 5, steps // 3)
    now, busy, total, ran, waited = 10**12, 0.0, 0.0, 0.0, 0.0
    process, host = [], []
    for step in range(steps):
        there = first <= step < last
        takes = step_s * (slow if there else 1) * rng.uniform(0.99, 1.01)
        process.append((now, step, int(ran * 1e9), int(waited * 1e9)))
        host.append(
            (
                now,
                int(busy * 1e9),
                level[there]
                if level
                else bytes_per_step * step
                if bytes_per_step
                else int(total * 1e9),
            )
        )
        now += int(takes * 1e9)
        busy += takes
        # Time that a hypervisor takes is no time in which the thread runs; a slow clock is.
        ran += ran_s or (step_s if rate else takes)
        waited += waits * takes
        total += takes * (rate[there] if rate else 0)
    process.append((now, steps, int(ran * 1e9), int(waited * 1e9)))
    shutil.rmtree(folder / "telemetry")
    (folder / "telemetry").mkdir()
    for rank in range(ranks):
        (folder / "telemetry" / ("%d.1" % rank)).write_text(
            "twinrun.telemetry/1\tprocess\tn\t%d\t%d\t1\tmain\nt_ns\tsteps\tthread\tran_ns\twait_ns\n"
            % (rank, ranks)
            + "".join("%d\t%d\t1\t%d\t%d\n" % row for row in process)
        )
    (folder / "telemetry" / "host").write_text(
        "twinrun.telemetry/1\thost\tn\nt_ns\tbusy_ns\t%s\n" % (column or "cpus")
        + "".join("%d\t%d\t%d\n" % (row if column else row[:2] + (4,)) for row in host)
    )
    return first, last


def words(rng):
    return "".join(rng.choice("bcdfghklmnprstvz") + rng.choice("aeiou") for _ in range(3))
