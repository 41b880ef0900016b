# SPDX-License-Identifier: Apache-2.0
"""Drills: a job that keeps its word restores its state; jobs that are wrong in one way each fail."""

import json
import math
import sys

import pytest

JOB = """\
import hashlib, os, sys, time
MODE, RESUME = os.environ.get("MODE", "good"), "--resume" in sys.argv
starts = os.open(os.environ["STARTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(starts, b".")
HELD = os.fstat(starts).st_size == int(os.environ["HELD"])
def load():
    with open("m.ckpt", "rb") as f:
        data = f.read()
    if MODE in ("meek", "tidy") and hashlib.sha256(data[:-64]).hexdigest().encode() != data[-64:]:
        print("damaged checkpoint", file=sys.stderr)
        if MODE == "tidy":
            os.rename("m.ckpt", "m.ckpt.damaged")
        sys.exit(0)
    body, digest = data[:-64], data[-64:]
    if MODE != "blind" and hashlib.sha256(body).hexdigest().encode() != digest:
        sys.exit("damaged checkpoint")
    return int(body[:8]), body[8:]
def save(step, state):
    body = b"%08d" % step + state
    data = body + hashlib.sha256(body).hexdigest().encode()
    name = "m.ckpt" if MODE == "torn" else "m.ckpt.tmp"
    with open(name, "wb", buffering=0) as f:
        for i in range(0, len(data), 1 << 16):
            f.write(data[i:i + (1 << 16)])
            if HELD and step == 2:
                time.sleep(60)  # until the kill finds it, which is in the middle
                sys.exit("it was not killed")
    if name != "m.ckpt":
        os.replace(name, "m.ckpt")
start, state = 0, bytes(1 << 19)
if RESUME and os.path.exists("m.ckpt"):
    start, state = load()
    start -= MODE == "forgets"
for step in range(start, int(os.environ.get("STEPS", "3"))):
    key = hashlib.sha256(state + b"%d" % step).digest()
    if MODE == "random":
        key = os.urandom(32)
    if MODE == "blind":
        state = state[:200000] + key + state[200032:]
    else:
        state = key * (1 << 14)
    save(step + 1, state)
"""


@pytest.fixture
def drill(twinrun, script, home, tmp_path):
    """drill(kind, mode) -> Result with the parsed answer, after the ledger's events are there"""
    script("job.py", JOB)
    starts = tmp_path / "starts"

    def call(kind, mode="good", *options, **env):
        starts.unlink(missing_ok=True)
        held = 0 if kind == "node" else 2  # the second start is the one that is to be killed
        resume = () if kind == "node" else ("-r", f"{sys.executable} job.py --resume")
        return twinrun(
            *("drill", kind, "--json", "-c", "m.ckpt", *resume, *options),
            *("--", sys.executable, "job.py"),
            env={"MODE": mode, "STARTS": str(starts), "HELD": str(held), **env},
        )

    return call


def events(home):
    return [json.loads(p.read_text()) for p in home.glob("events/*.json")]


CASES = [
    ("preempt", "good", 0, "resumed: the same state"),
    ("preempt", "blind", 0, "resumed: the same state"),
    ("preempt", "torn", 1, "resumed: it ended with exit code 1"),
    ("preempt", "forgets", 1, "resumed: another state"),
    ("preempt", "random", 3, "does not repeat itself"),
    ("corrupt", "good", 0, "cut in half: the job refused it"),
    ("corrupt", "blind", 1, "went on from it silently"),
    ("corrupt", "meek", 1, "cut in half: the job ended well and did not write m.ckpt"),
    ("corrupt", "tidy", 1, "one bit turned over: the job ended well and did not write m.ckpt"),
    ("corrupt", "forgets", 1, "put back and resumed: another state"),
    ("corrupt", "random", 3, "does not repeat itself"),
    ("node", "good", 0, "this job does not depend on it"),
    ("node", "random", 3, "does not repeat itself"),
]


# what no exit code tells of: the way back is there, and the drill fails all the same
SILENT = {("corrupt", "blind"), ("corrupt", "meek"), ("corrupt", "tidy")}


@pytest.mark.parametrize(("kind", "mode", "code", "said"), CASES)
def test_drills(drill, home, work, kind, mode, code, said):
    done = drill(kind, mode)
    assert done.rc == code and any(said in s for s in done.json["steps"]), done
    if mode != "blind":
        assert not any("went on from it silently" in s for s in done.json["steps"]), done
    outcome = {0: "restored", 1: "failed", 3: "nothing shown"}[code]
    assert done.json["outcome"] == outcome
    found = events(home)
    assert [(e["kind"], e["outcome"]) for e in found] == ([("drill", outcome)] if code < 3 else [])
    if code == 0:
        assert done.json["reproduce_s"] > 0
        assert all(e["subject"].startswith(kind + ": ") for e in found)
    elif (kind, mode) not in SILENT:
        assert done.json["reproduce_s"] is None
    assert (done.json["detect_s"] is None) == ((kind, mode) in {*SILENT, ("node", "good")}), done
    # the user's own folder is as it was
    assert sorted(p.name for p in work.iterdir() if p != home) == ["job.py"]


def test_the_kill_is_in_the_middle_of_a_save(drill, home):
    assert drill("preempt", "torn").rc == 1
    sizes = [p.stat().st_size for p in home.glob("runs/*-drill-*/work/m.ckpt")]
    whole = 8 + (1 << 19) + 64
    assert any(0 <= s < whole for s in sizes), sizes
    assert whole in sizes


def test_events_reach_the_service_levels(drill, twinrun):
    assert drill("preempt").rc == 0
    rows = twinrun("slo", "--json").json["indicators"]
    m8 = next(r for r in rows if r["indicator"] == "M8" and r["scope"] == "all")
    assert (m8["counts"]["good"], m8["counts"]["bad"]) == (1, 0), m8
    assert not math.isnan(m8["value"])


def test_a_state_that_lay_there_before(drill, work, home):
    """A job that saves nothing, beside an old checkpoint, restores nothing."""
    (work / "m.ckpt").write_text("old")
    for kind in ("preempt", "corrupt", "node"):
        done = drill(kind, STEPS="0")
        assert done.rc == 2 and "expected a job that writes m.ckpt" in done.err, done
    assert not events(home)


def test_jobs_that_are_not_fit(drill, twinrun, home):
    done = drill("preempt", STEPS="1")
    assert done.rc == 2 and "twice at least" in done.err, done
    done = twinrun("drill", "node", "-c", "m.ckpt", "--", "false")
    assert done.rc == 2 and "exit code 1" in done.err, done
    done = twinrun("drill", "node", "-c", "m.ckpt", "--", "./no-such-program")
    assert done.rc == 2, done
    assert not events(home)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("flood", "-c", "x", "--", "true"), "expected preempt, corrupt, node"),
        (("node", "-c", "x"), "expected -- and the job's command"),
        (("node", "--", "true"), "--checkpoint: expected"),
        (("node", "-c", "../x", "--", "true"), "--checkpoint: expected"),
        (("node", "-c", "/x", "--", "true"), "--checkpoint: expected"),
        (("preempt", "-c", "x", "--", "true"), "expected --resume"),
        (("node", "-c", "x", "-r", "y", "--", "true"), "nothing is resumed"),
    ],
)
def test_bad_use(twinrun, argv, message):
    done = twinrun("drill", *argv)
    assert done.rc == 2 and message in done.err, done
