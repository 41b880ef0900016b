# SPDX-License-Identifier: Apache-2.0
"""A job whose addresses or data are limited (ulimit -v, -d) has what it has alone.

Of a limit the watcher takes an eighth for all threads together (src/base/room.c), however many
record. What finds no room there loses its details, and the verdict says so.
"""

import os
import resource
import subprocess

import pytest
from corpus_run import TWINRUN, built

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
MIB = 1 << 20
LIMITS = {"v": resource.RLIMIT_AS, "d": resource.RLIMIT_DATA}
STACK_KIB = 68  # of a thread of the job, with its guard
# What else is in the job: its program, libraries, the agent's library, one thread.
ROOM_MIB = 16


def under(limit, mib, argv, tmp_path):
    """What the command prints and how it ends, where the limit holds from its start on."""

    def before():
        resource.setrlimit(LIMITS[limit], (mib * MIB, mib * MIB))

    done = subprocess.run(
        argv,
        preexec_fn=before,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ, TWINRUN_HOME=str(tmp_path / "home")),
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def job(threads, mib):
    """A job that has use for all of the limit but the eighth and a little."""
    taken = mib - mib // 8 - threads * STACK_KIB // 1024 - ROOM_MIB
    return [str(built() / "crowd"), str(threads), str(taken)]


@pytest.mark.parametrize("threads", [1, 16, 200, 1200])
@pytest.mark.parametrize("mib", [192, 384, 1024, 3000])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limited_job_is_as_alone(limit, mib, threads, tmp_path):
    argv = job(threads, mib)
    alone = under(limit, mib, argv, tmp_path)
    assert alone[0] == 0, alone
    watched = under(limit, mib, [TWINRUN, "record", "-q", "--", *argv], tmp_path)
    assert watched == alone


def twinrun(tmp_path, *argv):
    return subprocess.run(
        [TWINRUN, *argv],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=dict(os.environ, TWINRUN_HOME=str(tmp_path / "home")),
        timeout=120,
    )


@pytest.mark.parametrize("limit", LIMITS)
def test_what_found_no_room_is_said(limit, tmp_path):
    """1,200 threads do not all find room for details in an eighth of 192 MiB: their values are
    compared all the same, so no difference is made up, and the verdict says what is missing.
    """
    argv = job(1200, 192)
    for _ in range(2):
        under(limit, 192, [TWINRUN, "record", "-q", "--", *argv], tmp_path)
    done = twinrun(tmp_path, "diff", "last~1", "last")
    words = " ".join(done.stdout.split())
    assert "DIFFER" not in words and "details of" in words and "were lost in" in words, done
    assert "could not be recorded" not in words, done


def test_what_fits_is_recorded(tmp_path):
    """Sixteen threads lose nothing under 1 GiB."""
    argv = job(16, 1024)
    for _ in range(2):
        under("v", 1024, [TWINRUN, "record", "-q", "--", *argv], tmp_path)
    done = twinrun(tmp_path, "diff", "last~1", "last")
    assert "DIFFER" not in done.stdout and "lost" not in done.stdout, done
    assert "could not be" not in done.stdout, done
