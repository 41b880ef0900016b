# SPDX-License-Identifier: Apache-2.0
"""A folder in which jobs run under a flag file, for the tests of rollouts.

The truth is in the jobs: one whose result hangs on Python's hash salt, which the pin hash-seed
holds, and one that is slow, diverges or fails where it sees the pin. The keys by which runs are
drawn are given, so that each run's arm is known before it is made.
"""

import json
import sys

import pytest

from jobs_folder import JobsFolder

# One step with one recorded value, which hangs on the order of a set.
DIVERGES = """import array, os, sys, time, twinrun
x = float(hash('a word') %% 1000003)
%s
twinrun.record('loss', array.array('d', [x]))
twinrun.step()
print('loss', x.hex())
"""
# What a job does that sees the pin.
PINNED = "if os.environ.get('PYTHONHASHSEED', 'random') != 'random':\n    "
FINE = DIVERGES % ""
# It sleeps for three times as long as it took to come there: the machine's pace is no matter.
SLOW = DIVERGES % (
    """began = int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]) / 100
"""
    + PINNED
    + "time.sleep(.3 + 3 * (time.clock_gettime(time.CLOCK_BOOTTIME) - began))"
)
WORSE = DIVERGES % (PINNED + "x = float(time.time_ns() % 1000003)")
# As a limit of time ends it: twinrun gets the signal, or is killed itself.
ENDED = DIVERGES % (
    PINNED
    + """parent = os.getppid()
    os.kill(parent, int(sys.argv[1]))
    while os.getppid() == parent: time.sleep(0.01)"""
)
BREAKS = DIVERGES % (PINNED + "sys.exit(3)")


class World(JobsFolder):
    """A folder in which jobs run under a flag file."""

    def __init__(self, folder):
        super().__init__(folder, without=("SLURM_", "PBS_", "LSB_", "PYTHONHASHSEED"))
        self.flag = self.folder / "flag"
        self.keys = 0

    def rollout(self, *words, code=0):
        done = self.twinrun("rollout", *words, "--json", TWINRUN_ROLLOUT=str(self.flag))
        assert done.returncode == code, done.stdout + done.stderr
        answer = json.loads(done.stdout)
        assert answer["schema"] == "twinrun.rollout/1"
        return answer

    def start(self, *words):
        return self.rollout("start", "hash-seed", "--share", "50%", "--alpha", "0.1", *words)

    def job(self, *options, verb="record", key=None, code=0, **env):
        self.keys += 1
        done = self.twinrun(
            verb,
            *options,
            "--",
            sys.executable,
            "job.py",
            TWINRUN_ROLLOUT=str(self.flag),
            TWINRUN_ROLLOUT_KEY=key or f"key {self.keys}",
            **env,
        )
        assert done.returncode == code, done.stderr
        return done

    def records(self):
        return [self.record_of(name) for name in self.runs()]

    def state(self):
        (run,) = json.loads(self.twinrun("ls", "--json").stdout)["runs"]
        return run["state"]

    def last(self):
        return max(self.records(), key=lambda r: r["start_realtime_ns"])

    def decisions(self):
        return self.ask(
            "select outcome, subject from events where kind = 'rollout' order by time_ns"
        )


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def crc32c(data):
    """Of a flag file's text, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
