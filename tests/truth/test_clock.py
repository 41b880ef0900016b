# SPDX-License-Identifier: Apache-2.0
"""The clock experiment: what a run under faster clocks shows, and what it must not pass.

Each job prints numbers of which nobody knows whether they are times. Only those that follow the
clock in every line may be called times; results that change, that hang on time or that have a
result's name may not.
"""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

import pool  # noqa: E402
from twinrun import recheck  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve()
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
AGENT = BUILD / "agents" / "libtwinrun.so"
JOB = """
import random, sys, time
import numpy as np
import twinrun

for step in range(5):
    t0 = time.perf_counter()
    x = np.float64([step])
    twinrun.record("input", x)
    time.sleep(0.12 + 0.03 * random.random())  # a busy machine must not make one step take three times as long
    dt = time.perf_counter() - t0
    w = np.float64([1 / (step + 1)])
    %s
    twinrun.record("weights", w)
    twinrun.step()
"""
BOUNDED = """
    n, end = 0, time.perf_counter() + 0.05
    while time.perf_counter() < end:
        n += 1
"""
TIMES = {
    "unit": 'print("conv1: %.2f ms" % (dt * 1e3))',
    "rate": 'print("cache %.2f lookups/s" % (1 / dt))',
    "two": 'print("conv1: %.2f ms, cache %.2f lookups/s, step 3" % (dt * 1e3, 1 / dt))',
    "equal": 'print("conv1: %.1f ms, conv2: %.1f ms" % (dt * 1e3, dt * 1e3))',
    "wall": 'print("widget: %.3f s" % (time.time() - t1))',
    "cpu": 'sum(range(1000000)); print("conv1: %.2f ms" % ((time.process_time() - p) * 1e3))',
    "parts": 'print("gadget %dm%02ds" % divmod(6000 * dt, 60))',
}
BEFORE = {"wall": "import time; t1 = time.time()", "cpu": "import time; p = time.process_time()"}
RESULTS = {
    "changes": 'print("half-life: %.3f s" % (3 + random.random()))',
    "jumps": 'print("half-life: %.4f s" % 10 ** random.uniform(-2, 2))',
    # Six times a step: two runs that draw the same, as they do once in 2^30 times, are the same.
    "steady": 'for _ in range(6): print("half-life: %.3f s" % (3 + step + random.randrange(2) / 2))',
    "beside": 'print("conv1: %.2f ms, period %.3f s" % (dt * 1e3, 3 + random.random()))',
    "one-line": 'print("conv1: %.2f ms" % (dt * 1e3 if step < 4 else 35 + random.random()))',
    "bounded": BOUNDED + '    print("period: %.4f s" % (n / 1e4))',
    "of-a-result": 'print("loss after %.3f s" % dt); print("loss: %.4f s" % (dt * 10))',
    "inverse": 'print("half-life: %.3f s" % (0.1 / dt))',
    "square": 'print("half-life: %.4f s" % (100 * dt * dt))',
}
# The rest must be equal: here the job computes something else under a faster clock.
HANGS_ON_TIME = 'print("conv1: %.2f ms" % (dt * 1e3)); w = w + (dt > 0.3)'


def check(tmp_path, body, before="", *more):
    (tmp_path / "job.py").write_text(before + JOB % body)
    env = pool.environment(tmp_path / "home")
    argv = [BUILD / "cmd" / "twinrun", "check", "--runs", "2", "--json", *more, "--"]
    done = subprocess.run(
        [*argv, sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    runs = [recheck.Run(d) for d in verdict["runs_dir"]] if "runs_dir" in verdict else []
    return verdict, runs


def check_times(*args, how=None, held_up="inconclusive"):
    """Of numbers that are times. A machine that stops one step for as long as three take leaves the
    experiment open, which is then the right answer: such a machine is asked again, twice at most.
    held_up: the right answer where a step was held up.
    """
    for _ in range(3):
        verdict, runs = (how or check)(*args)
        if verdict["outcome"] != held_up:
            break
    return verdict, runs


def rechecked(verdict, runs):
    r = recheck.Recheck(verdict["claims"], runs, verdict)
    return [(c["claim"], *r.one(c)) for c in verdict["claims"]]


def refuted(verdict, runs):
    return [row for row in rechecked(verdict, runs) if row[1] == "refuted"]


@pytest.mark.parametrize("name", TIMES)
def test_what_follows_the_clock_is_a_time(tmp_path, name):
    verdict, runs = check_times(tmp_path, TIMES[name], BEFORE.get(name, ""))
    assert verdict["outcome"] == "same", verdict
    assert any("clock experiment: in two more runs, under clocks 64" in n for n in verdict["notes"])
    assert not refuted(verdict, runs)
    assert [c["claim"] for c in verdict["claims"]].count("clock") == 1


@pytest.mark.skipif(not FULL, reason="waits for 60 s on purpose: with --full")
def test_a_run_that_does_not_end_under_a_faster_clock(tmp_path):
    """It waits where its clock has jumped: what the other clock would show is not known."""
    body = 'print("conv1: %.2f ms" % (dt * 1e3), flush=True); time.sleep(3600 * (dt > 0.3))'
    verdict, runs = check(tmp_path, body)
    assert verdict["outcome"] == "inconclusive"
    said = "clock experiment: a run under a faster clock was cut short, so nothing is known by it"
    assert said in verdict["notes"], verdict["notes"]
    assert not refuted(verdict, runs)
    argv = [
        BUILD / "cmd" / "twinrun",
        "isolate",
        "--text",
        "--no-cases",
        "--pin",
        "entropy",
        "--",
        sys.executable,
        "job.py",
    ]
    done = subprocess.run(
        argv, cwd=tmp_path, env=pool.environment(tmp_path / "home"), capture_output=True, text=True
    )
    said = "a run under a faster clock was cut short, so nothing is known by it"
    assert said in " ".join((done.stdout + done.stderr).split()), done


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_no_time(tmp_path, name):
    verdict, runs = check(tmp_path, RESULTS[name])
    assert verdict["outcome"] != "same", verdict
    assert not refuted(verdict, runs)


def test_nothing_follows(tmp_path):
    verdict, _ = check(tmp_path, RESULTS["changes"])
    said = "times as fast, no number in question followed the clock"
    assert any(said in n for n in verdict["notes"])
    verdict, _ = check(tmp_path, TIMES["unit"], "", "--no-clock")
    assert verdict["outcome"] == "inconclusive"
    assert not any("clock experiment" in n for n in verdict["notes"])


def test_a_job_that_hangs_on_time_shows_nothing(tmp_path):
    # Where one of its steps is held up for 0.3 s, the job computes something else in that run.
    verdict, runs = check_times(tmp_path, HANGS_ON_TIME, held_up="differ")
    assert verdict["outcome"] == "inconclusive"
    said = "the job did not compute and show the same, so it says nothing about its numbers"
    assert any(said in n for n in verdict["notes"]), verdict["notes"]
    assert not any(c["claim"] == "clock" for c in verdict["claims"])
    assert not refuted(verdict, runs)


def lies(claim):
    """Copies of a claim of the experiment, each with something in it that is not so."""
    for change in (
        lambda c: c["factors"].reverse(),
        lambda c: c["factors"].__setitem__(0, 4096),
        lambda c: c["faster"].reverse(),
        lambda c: c["faster"].__setitem__(1, c["faster"][0]),
        lambda c: c["columns"][0].__setitem__("lines", 4),
        lambda c: c["columns"][0].__setitem__("number", "3"),
        lambda c: c["columns"][0].__setitem__("line", 400),
        lambda c: c["columns"].append(c["columns"][0]),
    ):
        lie = copy.deepcopy(claim)
        change(lie)
        yield lie


def test_lies_are_refuted(tmp_path):
    verdict, runs = check_times(tmp_path, TIMES["two"])
    claims = verdict["claims"]
    at = next(i for i, c in enumerate(claims) if c["claim"] == "clock")
    assert len(claims[at]["columns"]) == 2
    for lie in lies(claims[at]):
        claims[at] = lie
        assert recheck.Recheck(claims, runs, verdict).one(lie)[0] == "refuted", lie
    del claims[at]  # without the claim, "same" has nothing behind it
    assert [row[0] for row in refuted(verdict, runs)] == ["verdict"]


WAITS = """
import asyncio, os, queue, select, signal, subprocess, sys, threading, time

def wait(how):
    t0, m0, c0 = time.time(), time.monotonic(), os.times().elapsed
    how()
    print(how.__name__, time.time() - t0, time.monotonic() - m0, flush=True)

def sleep(): time.sleep(0.1)
def event(): threading.Event().wait(0.1)
def lock():
    l = threading.Lock(); l.acquire(); l.acquire(timeout=0.1)
def items():
    try: queue.Queue().get(timeout=0.1)
    except queue.Empty: pass
def polls(): select.poll().poll(100)
def selects(): select.select([], [], [], 0.1)
def loops(): asyncio.run(asyncio.sleep(0.1))
def child(): subprocess.run([sys.executable, "-c", "import time; time.sleep(0.1)"])
def patient():
    try: subprocess.run(["sleep", "5"], timeout=0.1)
    except subprocess.TimeoutExpired: pass
for how in (sleep, event, lock, items, polls, selects, loops, child, patient):
    wait(how)
"""


def test_waits_stay_as_long(tmp_path):
    """Under a clock 64 times as fast each wait of 0.1 s takes that long, and shows 6.4 s."""
    second = int(float(Path("/proc/uptime").read_text().split()[0]))
    env = pool.environment(tmp_path / "home") | {
        "TWINRUN_RUN_DIR": str(tmp_path),
        "LD_PRELOAD": str(AGENT),
        "TWINRUN_FACTORS": "clock=scale:64:%d" % second,
    }
    done = subprocess.run(
        [sys.executable, "-c", WAITS], env=env, capture_output=True, text=True, timeout=60
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) == 9, done.stderr
    for name, wall, monotonic in rows:
        for shown in (float(wall), float(monotonic)):
            real = shown / 64
            # a time-out that is made of several waits passes as fast as the clock
            assert (name == "patient" or 0.05 < real) and real < 2, (name, real)
