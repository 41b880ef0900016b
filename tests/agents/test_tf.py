# SPDX-License-Identifier: Apache-2.0
"""Jobs of TensorFlow and Keras, unmodified: what is recorded, what must not be taken for the same,
and that the job notices nothing.

The jobs lie in tf_jobs/; each is run once, by the Python in TWINRUN_TF_PYTHON.
"""

import os
import subprocess
import sys
import tempfile

import pytest
from job_pool import once
from native import LIBRARY, ROOT, Run

PYTHON = os.environ.get("TWINRUN_TF_PYTHON", sys.executable)
JOBS = os.path.join(ROOT, "tests", "agents", "tf_jobs")
SITE = os.path.join(ROOT, "python", "twinrun", "_site")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


@once
def has_tensorflow():
    script = "import importlib.util as u, sys; sys.exit(not (u.find_spec('tensorflow') and u.find_spec('keras')))"
    return subprocess.run([PYTHON, "-c", script], capture_output=True).returncode == 0


@pytest.fixture(autouse=True)
def tensorflow():
    if not os.path.exists(LIBRARY):
        pytest.skip(f"not built: {LIBRARY}")
    if not has_tensorflow():
        pytest.skip("no Python with tensorflow and keras (name one in TWINRUN_TF_PYTHON)")


@once
def watched(job, args=(), number=0):
    """(how it ended, traces by role). number: of runs that are otherwise the same."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(
            folder,
            PYTHONPATH=SITE,
            TWINRUN_PYTHON_DIR=os.path.join(ROOT, "python"),
            TWINRUN_SITE_DIR=SITE,
            PYTHONDONTWRITEBYTECODE=1,
            **QUIET,
        )
        script = os.path.join(JOBS, job + ".py")
        done = run.start(PYTHON, script, *args, preload=True, cwd=folder)
        return done, run.traces()


def cases(*args, number=0):
    """{name of a case: what is compared of it, in order}"""
    done, traces = watched("cases", args, number=number)
    assert done.returncode == 0, done
    assert "agent.error" not in dict(traces["main"].notes), traces["main"].notes
    names = done.stdout.decode().split()
    keys = ("phase", "kind", "name", "scope", "digest", "flags")
    return {
        name: [tuple(r[k] for k in keys) for r in traces["main"].records if r["step"] == step]
        for step, name in enumerate(names, 1)
    }


def test_twins_are_the_same_and_no_mutant_is():
    one, twin, mutant = cases(), cases(number=1), cases("mutant")
    assert len(one) > 20
    for name in one:
        assert one[name] and one[name] == twin[name], name
        assert one[name] != mutant[name], name


def test_the_job_notices_nothing():
    script = os.path.join(JOBS, "unchanged.py")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_")}
    environment.pop("PYTHONPATH", None)
    environment.update(QUIET)
    alone = subprocess.run([PYTHON, script], env=environment, capture_output=True, timeout=300)
    done, traces = watched("unchanged")
    assert alone.returncode == 0, alone.stderr[-2000:]
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert "agent.error" not in dict(traces["main"].notes)


def rows(trace, step):
    return {(r["phase"], r["kind"], r["name"]) for r in trace.records if r["step"] == step}


def test_a_fit_is_seen_batch_by_batch():
    done, traces = watched("train")
    assert done.returncode == 0 and done.stdout == b"done\n", done
    trace = traces["main"]
    assert [s["step"] for s in trace.steps] == list(range(10))
    found = rows(trace, 9)
    assert {
        ("data", "in", "program"),
        ("data", "batch", "batch[0]"),
        ("data", "batch", "batch[1]"),
        ("forward", "activation", "train_step: result['loss']"),
        ("optimizer", "weight", "sequential/dense/kernel"),
        ("optimizer", "moment", "adam/sequential_dense_kernel_momentum"),
        ("optimizer", "hyper", "adam/learning_rate"),
        ("rng", "state", "seed_generator/seed_generator_state"),
    } <= found


def test_a_loop_with_a_tape_is_seen():
    for how in ((), ("function",)):
        done, traces = watched("loop", how)
        assert done.returncode == 0 and done.stdout == b"done\n", done
        trace = traces["main"]
        assert [s["step"] for s in trace.steps] == list(range(4))
        found = rows(trace, 3)
        assert {("data", "batch", "batch"), ("optimizer", "weight", "w")} <= found
        if how:
            assert ("forward", "activation", "train_step: result") in found
        else:
            assert {("forward", "loss", "loss"), ("backward", "gradient", "w")} <= found


def test_a_strategy_is_left_alone_and_that_is_said():
    done, traces = watched("strategy")
    assert done.returncode == 0 and done.stdout == b"done\n", done
    assert ("unseen", "what runs under a strategy of tf.distribute") in traces["main"].notes


NOTE = (
    "TensorFlow computed operation by operation, too: of that only what is given to a function, "
    "a tape, an optimizer or a variable was compared"
)


def test_check_says_same_and_names_the_line(twinrun, script):
    with open(os.path.join(JOBS, "loop.py")) as f:
        text = f.read()
    path = script("loop.py", text)
    line = text.splitlines().index('w = tf.Variable(tf.random.normal((8, 1)), name="w")') + 1
    same = twinrun("check", "--runs", "2", "--", PYTHON, path, env=QUIET)
    assert same.rc == 0 and same.out.startswith("SAME    4 steps"), same.out
    assert NOTE in " ".join(same.out.split())
    differ = twinrun("check", "--runs", "2", "--", PYTHON, path, "unseeded", env=QUIET)
    assert differ.rc == 1 and differ.out.startswith("DIFFER  from step 0 on"), differ.out
    assert "initial value of w" in differ.out and f"loop.py:{line} in <module>" in differ.out
