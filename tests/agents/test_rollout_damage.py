# SPDX-License-Identifier: Apache-2.0
"""Rollouts whose flag file is none, whose ledger lacks what happened, and whose calls are killed."""

import fcntl
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

import system_calls
from jobs_folder import TWINRUN
from rollout_helper import FINE, crc32c, world  # noqa: F401
from turn import FULL

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)


# ---- a flag file that is none


def broken(world, how):
    whole = world.flag.read_bytes()
    if how == "missing":
        world.flag.unlink()
    elif how == "cut":
        world.flag.write_bytes(whole[: len(whole) // 2])
    elif how == "empty":
        world.flag.write_bytes(b"")
    elif how == "noise":
        world.flag.write_bytes(random.Random(1).randbytes(4096))
    elif how == "huge":
        with world.flag.open("r+b") as f:
            f.truncate(1 << 40)
    elif how == "newer":
        world.flag.write_bytes(whole.replace(b"rollout 1\n", b"rollout 2\n", 1))
    elif how == "older":
        world.flag.write_bytes(whole.replace(b"rollout 1\n", b"rollout 0\n", 1))
    elif how == "link":
        world.flag.rename(world.folder / "elsewhere")
        world.flag.symlink_to("elsewhere")
    elif how == "fifo":
        world.flag.unlink()
        os.mkfifo(world.flag)
    elif how == "folder":
        world.flag.unlink()
        world.flag.mkdir()
    elif how == "everybody's":
        world.flag.chmod(0o666)
    elif how == "edited":
        world.flag.write_bytes(whole.replace(b"share 500000", b"share 900000", 1))


@pytest.mark.parametrize(
    "how",
    ("missing cut empty noise huge newer older link fifo folder everybody's edited".split(" ")),
)
def test_a_broken_flag_file_harms_no_job(world, how):
    world.write("job.py", FINE)
    world.start()
    plain = world.twinrun("record", "-q", "--", sys.executable, "-c", "print(6 * 7)")
    broken(world, how)
    done = world.twinrun(
        "record",
        "--",
        sys.executable,
        "-c",
        "print(6 * 7)",
        TWINRUN_ROLLOUT=str(world.flag),
    )
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout) == (0, "42\n")
    assert "no part of it" in done.stderr
    run = world.last()
    assert run["rollout"]["arm"] == "off" and run["rollout"]["why"]
    assert "PYTHONHASHSEED" not in run["env"]
    for verb in ("step", "status", "stop", "fallback"):
        done = world.twinrun("rollout", verb, TWINRUN_ROLLOUT=str(world.flag))
        assert done.returncode == 2 and "flag" in done.stderr
    # and it is not written over, but where there is nothing
    done = world.twinrun("rollout", "start", "threads", TWINRUN_ROLLOUT=str(world.flag))
    assert done.returncode == (0 if how == "missing" else 2), done.stderr


def test_runs_without_a_flag_file_are_counted(world):
    world.write("job.py", FINE)
    world.start()
    whole = world.flag.read_bytes()
    broken(world, "cut")
    world.job("-q")
    world.flag.write_bytes(whole)
    world.job("-q")
    seen = world.rollout("status")["seen"]
    assert seen["off"] == 1 and "is cut" in seen["off_why"]
    assert seen["canary"]["runs"] + seen["control"]["runs"] == 1


def test_a_disk_that_is_full(world):
    """What a decision cannot be written to keeps the flag file as it was."""
    world.write("job.py", FINE)
    world.start()
    before = world.flag.read_bytes()
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 0; exec '{TWINRUN}' rollout stop --flag '{world.flag}'"],
        cwd=world.folder,
        env=world.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert world.flag.read_bytes() == before


# ---- the ledger


def test_a_ledger_that_lacks_the_runs(world):
    world.write("job.py", FINE)
    world.start()
    for _ in range(4):
        world.job("-q")
    with sqlite3.connect(world.home / "ledger.db") as db:
        db.execute("drop view runs_now")
        db.execute("delete from runs")
        db.execute(
            "create view runs_now as select * from runs r where not exists (select 1 from runs x "
            "where x.id = r.id and x.version > r.version)"
        )
    for run in (world.home / "runs").iterdir():
        run.rename(world.folder / run.name)
    seen = world.rollout("step")["seen"]
    assert seen["missing"] == 4 and seen["canary"]["runs"] == seen["control"]["runs"] == 0


def test_a_ledger_that_is_deleted_is_made_anew(world):
    world.write("job.py", FINE)
    world.start()
    for _ in range(6):
        world.job("-q")
    before = world.rollout("step")
    (world.home / "ledger.db").unlink()
    after = world.rollout("status")
    assert after["seen"] == before["seen"]
    assert [d["decision"] for d in after["decisions"]] == ["started", "held"]


def test_nothing_new_is_not_decided_again(world):
    world.write("job.py", FINE)
    world.start()
    for _ in range(3):
        world.job("-q")
    first = world.rollout("step")
    flag = world.flag.read_bytes()
    again = world.rollout("step")
    assert first["changed"] and not again["changed"]
    assert world.flag.read_bytes() == flag and len(world.decisions()) == 2


def forget(world, outcome):
    """As a call leaves it that was killed between the flag file and the ledger."""
    with sqlite3.connect(world.home / "ledger.db") as db:
        db.execute("delete from events where kind = 'rollout' and outcome = ?", (outcome,))
    for event in (world.home / "events").iterdir():
        if json.loads(event.read_bytes())["outcome"] == outcome:
            event.unlink()


def test_a_decision_that_the_ledger_missed_is_written_later(world):
    world.write("job.py", FINE)
    world.start()
    world.job("-q")
    kept = world.flag.read_bytes()
    world.rollout("step")
    forget(world, "held")
    assert world.flag.read_bytes() != kept
    assert world.rollout("step")["changed"] is False
    assert [d for d, _ in world.decisions()] == ["started", "held"]


def test_the_next_rollout_writes_what_the_last_one_missed(world):
    """A call that is killed behind the flag file, and then another rollout takes its place."""
    world.write("job.py", FINE)
    world.start()
    world.rollout("stop")
    forget(world, "stopped")
    world.rollout("start", "threads=1")
    assert [d for d, _ in world.decisions()] == ["started", "stopped", "started"]


def test_a_clock_that_goes_back(world):
    world.write("job.py", FINE)
    start = world.start()
    world.job("-q")
    # the last decision was made in what is the future now
    text = world.flag.read_text()
    late = start["decided_ns"] + 10**18
    changed = text.replace(f"decided {start['decided_ns']}\n", f"decided {late}\n")
    assert changed != text
    body = changed[: changed.index("\nend ") + 1]
    world.flag.write_text(body + f"end {crc32c(body.encode()):08x}\n")
    answer = world.rollout("step")
    assert answer["changed"] and answer["decided_ns"] == late + 1
    assert answer["sequence"] == 2


# ---- two at once, and killed


def test_two_steps_at_once(world):
    world.write("job.py", FINE)
    world.start()
    with open(str(world.flag) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert world.rollout("step", code=3)["busy"] is True
        assert world.rollout("stop", code=3)["busy"] is True
        world.job("-q")  # jobs do not wait
    calls = [
        subprocess.Popen(
            [TWINRUN, "rollout", "step", "--flag", str(world.flag)],
            cwd=world.folder,
            env=world.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for _ in range(4)
    ]
    codes = []
    for call in calls:
        call.communicate(timeout=60)
        codes.append(call.returncode)
    assert set(codes) <= {0, 3} and 0 in codes
    assert [d for d, _ in world.decisions()] == ["started", "held"]


def test_comparing_holds_up_nobody(world):
    """A step compares before it takes the lock that stop and fallback need."""
    world.write("job.py", FINE)
    world.start()
    for _ in range(6):
        world.job("-q")
    with open(str(world.flag) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert world.rollout("step", code=3)["busy"] is True
        with sqlite3.connect(world.home / "ledger.db") as db:
            (n,) = db.execute("select count(*) from comparisons where verb = 'rollout'").fetchone()
        assert n >= 2  # of six runs of two arms
    with open(str(world.flag) + ".step-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert world.rollout("step", code=3)["busy"] is True
        assert world.rollout("stop")["state"] == "off"
    for umask in (0, 0o022, 0o077):
        for which in (".lock", ".step-lock"):
            os.unlink(str(world.flag) + which)
        mask = os.umask(umask)
        try:
            world.rollout("step")
            world.rollout("start", "hash-seed")
            world.rollout("stop")
        finally:
            os.umask(mask)
        for which in (".lock", ".step-lock"):
            assert os.stat(str(world.flag) + which).st_mode & 0o777 == 0o660


@pytest.mark.parametrize("verb", ["stop", "start", "step"])
def test_killed_at_every_system_call(world, verb):
    """The flag file is the old one or the new one, and no decision is missing from the ledger."""
    world.write("job.py", FINE)
    world.start("--ladder", "100%")
    for _ in range(4):
        world.job("-q")
    if verb == "start":
        world.rollout("stop")
    whole = world.folder / "as it was"
    keep = [world.flag, world.home]
    whole.mkdir()
    for path in keep:
        subprocess.run(["cp", "-a", path, whole], check=True, timeout=60)
    words = {"start": ["start", "hash-seed"]}.get(verb, [verb])
    call = [TWINRUN, "rollout", *words, "--flag", str(world.flag)]

    def back():
        for path in keep:
            subprocess.run(["rm", "-rf", path], check=True, timeout=60)
            subprocess.run(["cp", "-a", whole / path.name, path.parent], check=True, timeout=60)

    calls, code = system_calls.run(call, world.folder, world.env)
    if calls is None:
        pytest.skip("this machine does not let a process watch another's system calls")
    assert code == 0 and calls > 100
    # all that can matter comes late: before it the program is loaded and reads
    points = range(1, calls + 1) if FULL else range(calls // 3, calls + 1, max(1, calls // 16))
    for n in points:
        back()
        before = world.flag.read_bytes()
        _, code = system_calls.run(call, world.folder, world.env, kill_at=n)
        changed = world.flag.read_bytes() != before
        answer = world.rollout("status")
        old, new = {"stop": ("on", "off"), "start": ("off", "on"), "step": ("on", "on")}[verb]
        assert answer["state"] == (new if changed else old)
        # whatever comes next: the flag file is about to be replaced
        if answer["state"] == "on":
            world.rollout("stop")
        world.rollout("start", "threads=1")
        world.rollout("step")
        numbers = [tuple(s.split()[:2]) for _, s in world.decisions()]
        assert len(numbers) == len(set(numbers)), f"call {n}"
        for rollout in {r for r, _ in numbers}:
            mine = sorted(int(k) for r, k in numbers if r == rollout)
            assert mine == list(range(1, len(mine) + 1)), f"call {n} of {calls}"
        # the rollout that was begun with the kill has its first decision, too
        text = before if not changed else b"id " + answer["rollout"].encode()
        id_ = [w for w in text.decode().split("\n") if w.startswith("id ")][0][3:19]
        assert id_ in {r for r, _ in numbers}, f"call {n} of {calls}"


def test_killed_at_any_moment(world):
    """The flag file is the old one or the new one, and the ledger has each decision once."""
    kills = 200 if FULL else 12
    world.write("job.py", FINE)
    world.start("--ladder", "100%")
    for _ in range(4):
        world.job("-q")
    draw = random.Random(7)
    begin = time.monotonic()
    world.rollout("status")
    usual = time.monotonic() - begin
    verbs = [("stop",), ("start", "hash-seed"), ("step",)]
    states = {"stop": "off", "start": "on", "step": "on"}
    state = "on"
    for n in range(kills):
        words = verbs[n % 3]
        before = world.flag.read_bytes()
        call = subprocess.Popen(
            [TWINRUN, "rollout", *words, "--flag", str(world.flag)],
            cwd=world.folder,
            env=world.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            call.wait(timeout=draw.uniform(0, 1.2 * usual))
        except subprocess.TimeoutExpired:
            call.send_signal(signal.SIGKILL)
            call.wait()
        answer = world.rollout("status", code=0)
        if world.flag.read_bytes() == before:
            assert answer["state"] == state
        else:
            assert answer["state"] in (states[words[0]], state)
        # back to where the next verb begins, with what was missed
        state = states[words[0]]
        if answer["state"] != state:
            world.rollout(*words)
    world.job("-q")
    world.rollout("step")
    numbers = [tuple(s.split()[:2]) for _, s in world.decisions()]
    assert len(numbers) == len(set(numbers))
    last = world.rollout("status")
    mine = [int(n) for r, n in numbers if r == last["rollout"]]
    assert sorted(mine) == list(range(1, last["sequence"] + 1))
