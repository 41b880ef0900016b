# SPDX-License-Identifier: Apache-2.0
"""Rollouts of a fix, end to end: real jobs under a flag file, and what becomes of the fix."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from jobs_folder import TWINRUN
from rollout_helper import BREAKS, ENDED, FINE, SLOW, WORSE, crc32c, world  # noqa: F401

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)


def until(world, wanted, most, code=0):
    """Jobs and steps in turn until one decides so; how many jobs that took."""
    for n in range(1, most + 1):
        failed = world.twinrun(
            "record",
            "-q",
            "--",
            sys.executable,
            "job.py",
            TWINRUN_ROLLOUT=str(world.flag),
            TWINRUN_ROLLOUT_KEY=f"run {n}",
        )
        assert failed.returncode in (0, 3), failed.stderr
        done = world.twinrun("rollout", "step", "--json", TWINRUN_ROLLOUT=str(world.flag))
        answer = json.loads(done.stdout)
        if answer["decision"] == wanted:
            assert done.returncode == code
            return n, answer
        assert answer["decision"] in ("started", "held"), answer
        assert done.returncode == 0
    pytest.fail(f"{most} jobs, and no {wanted}: {answer}")


# ---- what other commands say of it, from the ledger


def levels(world, *words, **env):
    return json.loads(world.twinrun("slo", "--json", *words, **env).stdout)


def under_way(world, *lists):
    """What checklists answer to: is a rollout under way?"""
    for name in lists or ("production", "incident"):
        done = world.twinrun("audit", "last", "--json", "--checklist", name)
        (found,) = [
            i
            for i in json.loads(done.stdout)["targets"][0]["checklist"]
            if i["item"] == "No rollout of a fix is under way"
        ]
        yield found["answer"], found["because"]


def told(world, answer, state):
    """slo has the rates that step saw, and the state."""
    (one,) = levels(world)["rollouts"]
    assert (one["rollout"], one["state"]) == (answer["rollout"], state)
    assert (one["sequence"], one["said"]) == (answer["sequence"], answer["said"])
    every, *projects = one["projects"]
    assert every["project"] is None and [p["project"] for p in projects] == ["speech"]
    for arm in ("canary", "control"):
        seen = answer["seen"][arm]
        want = {k: seen[k] for k in ("runs", "same", "diverged", "not_known", "rate", "exact_95")}
        assert every[arm] == projects[0][arm], arm
        for key, value in want.pop("exact_95").items():
            assert every[arm]["exact_95"][key] == pytest.approx(value, rel=1e-8), arm
        if want["rate"] is not None:
            want["rate"] = pytest.approx(want["rate"], rel=1e-8)
        assert {k: every[arm][k] for k in want} == want, arm
    text = world.twinrun("slo").stdout
    with_fix, without = (answer["seen"][a] for a in ("canary", "control"))
    line = next(x for x in text.splitlines() if x.startswith("    project speech"))
    assert f"without {without['diverged']} of {without['diverged'] + without['same']}" in line
    assert f"with {with_fix['diverged']} of {with_fix['diverged'] + with_fix['same']}" in line
    assert ("%]" in line) == (without["rate"] is not None or with_fix["rate"] is not None)
    return one


# ---- the whole way


def test_a_good_fix_is_widened(world):
    world.env["TWINRUN_PROJECT"] = "speech"
    world.write("job.py", FINE)
    # neither the machine's pace nor a result that has no meaning decides here
    rule = ("--ladder", "100%", "--max-slowdown", "100", "--max-loss", "100%")
    assert world.start(*rule)["state"] == "on"
    n, answer = until(world, "widened", 60)
    assert n >= 24, "seven comparisons of each arm are the least that shows it"
    assert answer["share"] == 1
    canary, control = answer["seen"]["canary"], answer["seen"]["control"]
    assert canary["diverged"] == 0 and control["same"] == 0
    assert canary["interval"]["high"] < control["interval"]["low"]
    one = told(world, answer, "running")
    for said, because in under_way(world):
        assert said == "fail" and f"rollout {one['rollout']} runs: {one['said']}" in because
    # as of a time before it there was none, and nothing that came later counts
    assert levels(world, "--until", "2024-01-01")["rollouts"] == []
    # from now on every run has the pin, and gives one result
    world.job("-q")
    assert world.last()["rollout"]["arm"] == "canary"
    # each decision is in the ledger, once
    log = world.decisions()
    assert [d for d, _ in log].count("widened") == 1
    assert len({s.split()[1] for _, s in log}) == len(log) == answer["sequence"]
    world.rollout("stop")
    assert levels(world)["rollouts"][0]["state"] == "stopped"
    assert all(said == "pass" for said, _ in under_way(world))


@pytest.mark.parametrize(
    ("job", "why", "slower"),
    [(SLOW, "times as long", "1.2"), (WORSE, "repeats diverge", "100"), (BREAKS, "fail", "100")],
    ids=["slow", "diverges", "fails"],
)
def test_a_bad_fix_falls_back(world, job, why, slower):
    world.write("job.py", job)
    world.env["TWINRUN_PROJECT"] = "speech"
    # what the machine does meanwhile is not what is tested, but for the slow one
    world.start("--max-loss", "100%", "--max-slowdown", slower)
    _, answer = until(world, "fell-back", 60, code=1)
    assert why in answer["said"]
    assert answer["state"] == "fallback" and answer["share"] == 0
    assert answer["fallback"] == "all,-entropy,-clock"
    told(world, answer, "fell back")
    for said, because in under_way(world):
        assert said == "fail" and "fell back: " in because and why in because
    world.job("-q", code=3 if job is BREAKS else 0)
    last = world.last()
    assert last["rollout"]["arm"] == "fallback"
    assert "PYTHONHASHSEED" in json.dumps(last["env"])
    assert world.rollout("step", code=1)["changed"] is False
    assert [d for d, _ in world.decisions()][-1] == "fell-back"
    assert world.rollout("list")["decisions"][-1]["decision"] == "fell-back"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL], ids=["asked", "killed"])
def test_a_fix_with_which_runs_are_ended_from_outside_falls_back(world, sig):
    world.write("job.py", ENDED)
    world.start("--max-loss", "100%", "--max-slowdown", "100")
    for n in range(60):
        done = world.twinrun(
            "record",
            "-q",
            "--",
            sys.executable,
            "job.py",
            str(int(sig)),
            TWINRUN_ROLLOUT=str(world.flag),
            TWINRUN_ROLLOUT_KEY=f"run {n}",
        )
        assert done.returncode in (0, -sig, 128 + sig), done.stderr
        done = world.twinrun("rollout", "step", "--json", TWINRUN_ROLLOUT=str(world.flag))
        answer = json.loads(done.stdout)
        if answer["decision"] == "fell-back":
            break
    assert answer["decision"] == "fell-back" and "ended from outside" in answer["said"]
    canary, control = answer["seen"]["canary"], answer["seen"]["control"]
    assert canary["ended_from_outside"] == canary["runs"] >= 7 and canary["failed"] == 0
    assert control["ended_from_outside"] == 0
    words = world.twinrun("rollout", "status", "--flag", world.flag).stdout
    assert f"0 failed, {canary['runs']} ended from outside" in words


def test_of_how_many_runs_the_effect_is_known(world):
    world.write("job.py", FINE)
    world.start()
    for _ in range(8):
        world.job("-q")
    seen = world.rollout("step")["seen"]
    with_fix = seen["canary"]["runs"]
    assert seen["effect_known"] == with_fix and seen["no_effect"] == 0
    words = world.twinrun("rollout", "status", "--flag", world.flag).stdout
    assert "whether the pins took effect" not in words
    for run in (world.home / "runs").iterdir():
        run.rename(world.folder / run.name)
    after = world.rollout("status")["seen"]
    assert after["canary"]["runs"] == with_fix and after["effect_known"] == 0
    assert after["why"] and after["no_effect"] == 0
    words = world.twinrun("rollout", "status", "--flag", world.flag).stdout
    assert with_fix == 0 or f"not known of {with_fix} of {with_fix} run" in words


def test_a_pin_that_nothing_asked_for_is_not_known_to_take_effect(world):
    world.rollout("start", "hash-seed", "--share", "100%")
    done = world.twinrun("record", "-q", "--", "true", TWINRUN_ROLLOUT=str(world.flag))
    assert done.returncode == 0, done.stderr
    seen = world.rollout("step")["seen"]
    assert seen["canary"]["runs"] == 1
    assert seen["effect_known"] == seen["no_effect"] == 0


def test_falling_back_to_nothing(world):
    world.write("job.py", FINE)
    world.start("--fallback", "off")
    answer = world.rollout("fallback", "--why", "we saw \x1b[31mred")
    assert answer["state"] == "off" and answer["fallback"] is None
    assert "\x1b" not in answer["said"]
    world.job("-q")
    assert "rollout" not in world.last()


# ---- the arm of a run


def test_shares_of_nothing_and_of_everything(world):
    world.write("job.py", FINE)
    for share, arm in (("0%", "control"), ("100%", "canary")):
        world.rollout("start", "hash-seed", "--share", share)
        done = world.job(key="one")
        run = world.last()
        assert run["rollout"]["arm"] == arm
        assert run["rollout"]["share"] == (0 if arm == "control" else 1000000)
        assert run["rollout"]["key"] == "TWINRUN_ROLLOUT_KEY=one"
        assert ("this run has its pins" in done.stderr) == (arm == "canary")
        assert ("TWINRUN_ROLLOUT" in json.dumps(run["env"])) is False
        world.rollout("stop")
    assert world.rollout("status")["state"] == "off"


def test_one_job_is_of_one_arm(world):
    world.write("job.py", FINE)
    world.start()
    arms = set()
    for _ in range(3):
        world.job("-q", key="the same")
        arms.add(world.last()["rollout"]["arm"])
    assert len(arms) == 1


def test_runs_of_one_key_are_one_draw(world):
    """The ledger says which runs are of one key; what an older twinrun wrote does not."""
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%")
    for key in ("a", "a", "a", "b"):
        world.job("-q", key=key)
    query = "select subject from events where kind = 'rollout-run' order by time_ns"
    with sqlite3.connect(world.home / "ledger.db") as db:
        hashes = [subject.split(" key=")[1] for (subject,) in db.execute(query)]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]
    names = {f.name.split("-")[1] for f in (world.folder / "flag.jobs").iterdir()}
    assert names == set(hashes)
    answer = world.rollout("step")
    # "a" beside "b": not two of "a", and "a" not twice
    assert answer["seen"]["canary"]["runs"] == 4 and answer["compared"] == 1
    with sqlite3.connect(world.home / "ledger.db") as db:
        query = "update events set subject = substr(subject, 1, instr(subject, ' key=') - 1)"
        changed = db.execute(query + " where kind = 'rollout-run'").rowcount
    assert changed == 4
    assert world.rollout("step")["compared"] == 1  # the other two


def test_ranks_that_start_on_both_sides_of_a_decision(world):
    """The first process of a job draws for all of them, whatever is decided meanwhile."""
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%")
    world.job("-q", key="with")
    first = world.last()["rollout"]
    assert first["arm"] == "canary"
    world.rollout("fallback")
    world.job("-q", key="with")
    assert world.last()["rollout"] == first
    world.job("-q", key="later")
    assert world.last()["rollout"]["arm"] == "fallback"
    world.rollout("stop")
    world.job("-q", key="with")
    assert world.last()["rollout"] == first
    world.job("-q", key="much later")
    assert "rollout" not in world.last()


@pytest.mark.parametrize("verb", ["fallback", "stop"])
def test_a_job_put_into_the_queue_again_loses_a_fix_that_was_taken_back(world, verb):
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%")
    world.job("-q", key="again")
    (file,) = (world.folder / "flag.jobs").iterdir()
    world.job("-q", key="again")
    before = time.time() - 11 * 60
    os.utime(file, (before, before))
    world.job("-q", key="again")
    assert world.last()["rollout"]["arm"] == "canary"
    world.rollout(verb)
    world.job("-q", key="again")
    if verb == "fallback":
        assert world.last()["rollout"]["arm"] == "fallback"
    else:
        assert "rollout" not in world.last()


def test_the_folder_of_the_jobs_is_made_by_start(world):
    """Of the owner and group of the flag file's folder, whatever the mask is; old files go."""
    world.write("job.py", FINE)
    if os.geteuid() == 0:
        os.chown(world.folder, 0, 12345)
    mask = os.umask(0o077)
    try:
        world.rollout("start", "hash-seed", "--share", "100%")
    finally:
        os.umask(mask)
    jobs = world.folder / "flag.jobs"
    assert jobs.stat().st_mode & 0o7777 == 0o2770
    assert jobs.stat().st_gid == world.folder.stat().st_gid
    world.job("-q", key="one")
    (old,) = jobs.iterdir()
    (jobs / "notes").touch()
    world.rollout("stop")
    world.rollout("start", "hash-seed", "--share", "100%")
    assert [f.name for f in jobs.iterdir()] == ["notes"]
    world.job("-q", key="one")
    (new,) = (f for f in jobs.iterdir() if f.name != "notes")
    if os.geteuid() == 0:
        # somebody else's word is not taken, the flag file's owner's is
        os.chown(new, 12345, -1)
        world.job("-q", key="one")
        assert "who is neither" in world.last()["rollout"]["why"]
        os.chown(world.flag, 12345, -1)
        world.job("-q", key="one")
        assert world.last()["rollout"]["arm"] == "canary"


def test_a_decision_that_is_nowhere_is_not_in_the_ledger(world):
    world.write("job.py", FINE)
    world.start()
    done = world.twinrun(
        "rollout", "stop", "--json", TWINRUN_ROLLOUT=str(world.flag), TWINRUN_LEDGER="off"
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["state"] == "off" and answer["in_ledger"] is False
    assert [d for d, _ in world.decisions()] == ["started"]
    world.rollout("step")
    assert [d for d, _ in world.decisions()] == ["started", "stopped"]


def test_many_ranks_at_once_are_of_one_arm(world):
    """Some start while the share changes: one file says what all do."""
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "0%")
    flags = [world.flag.read_bytes()]
    text = flags[0].decode().replace("\nshare 0\n", "\nshare 1000000\n")
    body = text[: text.index("\nend ") + 1]
    flags.append((body + f"end {crc32c(body.encode()):08x}\n").encode())
    calls = []
    for n in range(8):
        other = world.folder / "other"
        other.write_bytes(flags[n % 2])
        other.rename(world.flag)
        env = {**world.env, "TWINRUN_ROLLOUT": str(world.flag), "TWINRUN_ROLLOUT_KEY": "one job"}
        argv = [TWINRUN, "record", "-q", "--", "true"]
        calls.append(subprocess.Popen(argv, cwd=world.folder, env=env))
    assert [c.wait(timeout=120) for c in calls] == [0] * 8
    told = [r["rollout"] for r in world.records()]
    assert len(told) == 8 and all(t == told[0] for t in told)
    assert told[0]["arm"] in ("canary", "control")
    assert len(list((world.folder / "flag.jobs").iterdir())) == 1


@pytest.mark.parametrize("how", ["no folder", "damaged", "link", "of another"])
def test_a_job_that_cannot_agree_is_no_part(world, how):
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%")
    jobs = world.folder / "flag.jobs"
    if how == "no folder":
        jobs.rmdir()
        jobs.write_text("in the way")
    else:
        world.job("-q", key="one")
        (file,) = jobs.iterdir()
        text = file.read_text()
        assert " canary 1000000 " in text
        if how == "damaged":
            file.write_text(text.replace("canary", "control"))
        elif how == "of another":
            file.write_text("\n")
        else:
            file.rename(world.folder / "away")
            file.symlink_to(world.folder / "away")
    done = world.job(key="one")
    run = world.last()
    assert run["rollout"]["arm"] == "off" and "flag.jobs" in run["rollout"]["why"]
    assert "no part of it" in done.stderr and "PYTHONHASHSEED" not in run["env"]
    assert world.rollout("status")["seen"]["off"] == 1
    # one that has no number to share needs no file
    done = world.twinrun(
        "record", "-q", "--", sys.executable, "job.py", TWINRUN_ROLLOUT=str(world.flag)
    )
    assert done.returncode == 0 and world.last()["rollout"]["arm"] == "canary"


def test_the_command_line_has_the_last_word(world):
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%")
    # twinrun run pins all by itself
    done = world.job(verb="run")
    run = world.last()
    assert run["rollout"]["arm"] == "overridden" and "hash-seed" in run["rollout"]["why"]
    assert "no part of it" in done.stderr
    # another pin, and the fix comes to it
    world.job("--pin", "threads=1", verb="run")
    run = world.last()
    assert run["rollout"]["arm"] == "canary"
    assert run["env"]["OMP_NUM_THREADS"] == "1" and "PYTHONHASHSEED" in run["env"]
    # left out on purpose
    world.job("--pin", "all,-hash-seed", verb="run")
    assert world.last()["rollout"]["arm"] == "overridden"
    seen = world.rollout("status")["seen"]
    assert seen["overridden"] == 2 and seen["canary"]["runs"] == 1


def test_another_project_is_left_alone(world):
    world.write("job.py", FINE)
    world.rollout("start", "hash-seed", "--share", "100%", "--project", "fraud-*")
    world.job("-q", TWINRUN_PROJECT="vision")
    assert "rollout" not in world.last()
    world.job("-q", TWINRUN_PROJECT="fraud-score")
    assert world.last()["rollout"]["arm"] == "canary"


def test_a_fix_that_isolate_found(world):
    world.write("job.py", FINE)
    done = world.twinrun("isolate", "--quiet", "--pin", "hash-seed", "--", sys.executable, "job.py")
    assert done.returncode == 1, done.stdout + done.stderr
    answer = world.rollout("start", "last", "--share", "100%")
    assert answer["pins"] == "hash-seed" and answer["fix_of"].startswith("isolate ")
    world.rollout("stop")
    with sqlite3.connect(world.home / "ledger.db") as db:
        (search,) = db.execute("select id from comparisons where verb = 'isolate'").fetchone()
    assert world.rollout("start", search[:10])["fix_of"] == "isolate " + search[:8]


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("last", "no search"),
        ("deadbeef", "no search"),
        ("hash-sed", "did you mean hash-seed"),
        ("hash-seed,noise=vary:3", "is shaken"),
        ("all,-threads,bogus", "unknown factor"),
        ("threads,-threads", "pins nothing"),
        ("", "found nothing"),
    ],
)
def test_what_is_no_fix(world, fix, said):
    world.write("job.py", FINE)
    done = world.twinrun("rollout", "start", fix, "--flag", world.flag)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not world.flag.exists()


# ---- runs that go on


@pytest.mark.parametrize("where", ["here", "another machine", "another container"])
def test_a_run_that_goes_on_has_not_failed(world, where):
    """Whether its twinrun lives can be seen on its own machine only."""
    (world.folder / "gate").touch()
    world.write("job.py", "import os, time\nwhile os.path.exists('gate'): time.sleep(0.01)\n")
    world.rollout("start", "hash-seed", "--share", "100%")
    job = subprocess.Popen(
        [TWINRUN, "record", "-q", "--", sys.executable, "job.py"],
        cwd=world.folder,
        env={**world.env, "TWINRUN_ROLLOUT": str(world.flag), "TWINRUN_ROLLOUT_KEY": "k"},
    )
    try:
        begin = time.monotonic()
        while not (runs := list(world.home.glob("runs/*/run.json"))):
            assert job.poll() is None and time.monotonic() - begin < 100
            time.sleep(0.01)
        run = json.loads(runs[0].read_bytes())
        assert run["launcher"]["pid_space"] == os.readlink("/proc/self/ns/pid")
        if where == "another machine":
            run["host"] = "elsewhere"
            run["launcher"]["boot_id"] = "00000000-0000-0000-0000-000000000000"
        elif where == "another container":
            run["launcher"]["pid_space"] = "pid:[1]"
        other = runs[0].with_name("other.json")
        other.write_text(json.dumps(run))
        other.rename(runs[0])
        for verb in ("status", "step", "status"):
            seen = world.rollout(verb)["seen"]
            assert seen["going_on"] == 1
            assert seen["canary"]["runs"] == seen["canary"]["ended_from_outside"] == 0
            assert seen["canary"]["failed"] == seen["failed_canary"] == 0
        assert world.state() == ("running" if where == "here" else "not known")
    finally:
        (world.folder / "gate").unlink()
        assert job.wait(timeout=100) == 0
    seen = world.rollout("step")["seen"]
    assert seen["going_on"] == 0 and seen["canary"]["runs"] == 1
    assert seen["canary"]["failed"] == seen["canary"]["ended_from_outside"] == 0
    assert world.state() == "ok"  # the ledger had not written it down as interrupted
