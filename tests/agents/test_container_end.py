# SPDX-License-Identifier: Apache-2.0
"""What takes a replay's container away, and that it is waited for with a limit: the guard of
src/image/contain.c, by tests/unit/image_driver and by a stand-in for docker.
"""

import os
import signal

import pytest

from conftest import clean_environment
from test_container import can_contain, made, processes_of, stand_in, wait_until  # noqa: F401
from test_image import DRIVER, driver


def gone(pid):
    """A process that ended, whether or not somebody has asked for its exit code."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids_of(file):
    return [int(word) for word in file.read_text().split()] if file.exists() else []


@pytest.fixture
def hangs(tmp_path):
    """A script that never ends, nor does its child; the file that has both of their ids."""
    file = tmp_path / "pids"
    yield f"trap '' TERM; sleep 1000 & echo $$ $! >{file}; while :; do wait; done", file
    for pid in pids_of(file):
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def test_it_is_waited_for(tmp_path):
    said = driver("contain", "exit 3", f"echo x >{tmp_path}/done", "1000")
    assert said == "status=3 interrupted=0 stays=0\n" and (tmp_path / "done").exists()
    # that it fails says nothing: the container is gone mostly, by --rm
    said = driver("contain", "kill -9 $$", "exit 1", "1000")
    assert said == "status=137 interrupted=0 stays=0\n"


def test_no_longer_than_its_limit(hangs):
    script, file = hangs
    assert driver("contain", "exit 0", script, "1") == "status=0 interrupted=0 stays=1\n"
    # on a slow machine it may not have come so far as to write them
    wait_until(lambda: all(map(gone, pids_of(file))) and not processes_of(str(file)))


def test_not_long_after_a_signal(start, hangs):
    script, file = hangs
    process = start([DRIVER, "contain", "exit 0", script, "100000"])
    wait_until(lambda: len(pids_of(file)) == 2)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert out == b"status=0 interrupted=1 stays=1\n", err
    wait_until(lambda: all(map(gone, pids_of(file))))


@pytest.mark.parametrize("deaf", [False, True])
def test_what_hears_no_signal_is_killed(start, tmp_path, deaf):
    """It would be killed ten seconds later otherwise."""
    run = f"trap 'exit 5' TERM; echo x >{tmp_path}/there; while :; do :; done"
    process = start([DRIVER, "contain", run, "exit 0", "1000", *(["deaf"] if deaf else [])])
    wait_until((tmp_path / "there").exists)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert out.decode() == f"status={137 if deaf else 5} interrupted=1 stays=0\n", err


def test_the_limit_holds_without_us(start, tmp_path, hangs):
    script, file = hangs
    process = start([DRIVER, "contain", f"echo $$ >{tmp_path}/run; exec sleep 1000", script, "1"])
    wait_until(lambda: pids_of(tmp_path / "run"))
    process.kill()
    process.wait(60)
    # the guard has the driver's command line
    wait_until(lambda: all(map(gone, pids_of(file))) and not processes_of(str(file)))


def test_the_container_that_stays_is_named(
    build,
    start,
    made,
    tmp_path,
    hangs,
    home,
    can_contain,  # noqa: F811
):
    script, file = hangs
    body = f'case "$1" in run) exit 125;; rm) echo "$*" >{tmp_path}/asked; {script};; esac\n'
    env = stand_in(tmp_path / "bin", "docker", body)
    stand_in(tmp_path / "bin", "skopeo", "exit 0\n")
    process = start(
        [build / "cmd" / "twinrun", "replay", made / "inside", "--container", "docker", "--into",
         tmp_path / "into"],
        env=clean_environment({"TWINRUN_HOME": str(home), **env}),
    )  # fmt: skip
    wait_until(lambda: len(pids_of(file)) == 2)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    asked = (tmp_path / "asked").read_text().strip()
    assert "did not take its container away" in err.decode()
    assert f"try docker {asked}" in err.decode() and "twinrun-replay-" in asked
    wait_until(lambda: all(map(gone, pids_of(file))))
