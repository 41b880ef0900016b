# SPDX-License-Identifier: Apache-2.0
"""A writer killed with SIGKILL at random moments: every trace is readable, and nothing that was sealed is lost.

20 kills; 1,000 with TWINRUN_FULL=1. The job tells what is sealed through shared memory, right after each flush.
"""
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILLS = 1000 if os.environ.get("TWINRUN_FULL", "") not in ("", "0") else 20


@pytest.fixture(scope="module")
def victim():
    path = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")) / "tests" / "unit" / "trace_victim"
    if not os.access(path, os.X_OK):
        pytest.skip("no %s: built with the unit tests only (needs cmocka)" % path)
    return path


def sealed_so_far(published):
    """(steps, records) that the job says are sealed."""
    raw = published.read_bytes() if published.exists() else b""
    return struct.unpack("<QQ", raw) if len(raw) == 16 else (0, 0)


def kill_once(victim, folder, seed, wait_s, late):
    """late: not before something was sealed."""
    trace, published = folder / "x.twt", folder / "published"
    for f in (trace, published, folder / "x.twt.new"):
        if f.exists():
            f.unlink()
    job = subprocess.Popen([victim, "run", trace, published, str(seed)])
    deadline = time.monotonic() + 30
    while late and sealed_so_far(published)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(wait_s)
    os.kill(job.pid, signal.SIGKILL)
    assert job.wait() == -signal.SIGKILL
    steps, records = sealed_so_far(published)
    if not trace.exists():
        assert steps == 0, "seed %d: %d steps were sealed, there is no trace" % (seed, steps)
        return 0, 0
    check = subprocess.run([victim, "check", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert check.returncode == 0, "seed %d: unreadable: %s" % (seed, check.stderr)
    found_steps, found_records, tail = map(int, check.stdout.split())
    assert found_steps >= steps, "seed %d: %d of %d sealed steps are there" % (seed, found_steps, steps)
    assert found_records >= records, "seed %d: %d of %d sealed records are there" % (seed, found_records, records)
    return steps, tail


def test_sigkill_loses_nothing_sealed(victim, tmp_path):
    rng = random.Random(20)
    sealed, torn = 0, 0
    for seed in range(KILLS):
        # from before the file exists to some hundred blocks in it; a slow machine may need long for the first
        steps, tail = kill_once(victim, tmp_path, seed, rng.choice((0.002, 0.01, 0.05)) * rng.random() * 2, late=seed % 2 == 1)
        sealed += steps > 0
        torn += tail > 0
    print("%d kills: %d after something was sealed, %d left a torn tail" % (KILLS, sealed, torn))
    assert sealed >= KILLS // 2, "the kills came too early to mean anything"
