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
import turn
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
    """{name of a case: what is compared of it, in order}, and the same of what is looked at once
    all have ended, by name.
    """
    done, traces = watched("cases", args, number=number)
    assert done.returncode == 0, done
    assert "agent.error" not in dict(traces["main"].notes), traces["main"].notes
    names = done.stdout.decode().split()
    keys = ("phase", "kind", "name", "scope", "digest", "flags")

    def of(step):
        return [tuple(r[k] for k in keys) for r in traces["main"].records if r["step"] == step]

    found = {name: of(step) for step, name in enumerate(names, 1)}
    return found, {row[2]: row for row in of(len(names) + 1)}


def test_twins_are_the_same_and_no_mutant_is():
    (one, end), (twin, end_of_twin), (mutant, end_of_mutant) = (
        cases(),
        cases(number=1),
        cases("mutant"),
    )
    assert len(one) > 20
    for name in one:
        assert one[name] and one[name] == twin[name], name
        assert one[name] != mutant[name], name
    # one that no function uses, and that was written to past its methods
    assert end["restored"] == end_of_twin["restored"] != end_of_mutant["restored"]


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


def test_fits_and_loops_are_seen_step_by_step_and_a_strategy_is_said_not_to_be():
    _done, traces = watched("unchanged")
    trace = traces["main"]
    # 6 steps of each fit, 4 where one execution takes two batches, and 3 of the loop
    assert [s["step"] for s in trace.steps] == list(range(22))
    for step, number in ((5, ""), (18, "_3")):
        net = f"sequential{number}"
        assert {
            ("data", "in", "program"),
            ("data", "batch", "batch[0]"),
            ("data", "batch", "batch[1]"),
            ("forward", "activation", "train_step: result['loss']"),
            ("optimizer", "weight", net + (f"/dense{number and '_5'}/kernel")),
            ("optimizer", "moment", f"adam{number}/{net}_dense{number and '_5'}_kernel_momentum"),
            ("optimizer", "hyper", f"adam{number}/learning_rate"),
            ("rng", "state", f"seed_generator{number}/seed_generator_state"),
        } <= rows(trace, step), step
    eager = rows(trace, 12)
    assert {("forward", "loss", "loss"), ("data", "batch", "batch[0]")} <= eager
    assert ("backward", "gradient", "sequential_2/dense_3/kernel") in eager
    assert {
        ("data", "batch", "batch[0]"),
        ("data", "in", "images"),
        ("forward", "activation", "train_step: result"),
        ("optimizer", "weight", "sequential_4/dense_7/kernel"),
        ("rng", "state", "tensorflow"),
    } <= rows(trace, 20)
    assert ("unseen", "what runs under a strategy of tf.distribute") in trace.notes


NOTE = (
    "TensorFlow computed operation by operation, too: of that only what is given to a function, "
    "a tape, an optimizer or a variable was compared"
)


FIRST = 'w = tf.Variable(tf.random.normal((8, 1)), name="w")'  # loop.py draws here


def test_check_says_same_and_diff_names_the_line(twinrun, script, home):
    with open(os.path.join(JOBS, "loop.py")) as f:
        text = f.read()
    path = script("loop.py", text)
    line = text.splitlines().index(FIRST) + 1
    same = twinrun("check", "--runs", "2", "--", PYTHON, path, env=QUIET)
    assert same.rc == 0 and same.out.startswith("SAME    4 steps"), same.out
    assert NOTE in " ".join(same.out.split())
    seeded = sorted(os.listdir(home / "runs"))[0]
    (trace,) = Run(home / "runs" / seeded).traces().values()
    assert [s["step"] for s in trace.steps] == list(range(4))
    assert {
        ("data", "batch", "batch"),
        ("forward", "loss", "loss"),
        ("backward", "gradient", "w"),
        ("optimizer", "weight", "w"),
    } <= rows(trace, 3)
    before = set(os.listdir(home / "runs"))
    for _ in range(2):
        assert twinrun("record", "--", PYTHON, path, "unseeded", env=QUIET).rc == 0
    unseeded = sorted(set(os.listdir(home / "runs")) - before)
    differ = twinrun("diff", *(home / "runs" / name for name in unseeded))
    assert differ.rc == 1 and differ.out.startswith("DIFFER  from step 0 on"), differ.out
    assert "initial value of w" in differ.out and f"loop.py:{line} in <module>" in differ.out


def test_the_lab_tells_what_seeds_such_a_job(twinrun):
    script = os.path.join(JOBS, "loop.py")
    job = ("--step", "noise", "--runs", "2", "--", PYTHON, script, "unseeded")
    said = " ".join(twinrun("lab", "--quiet", *job, env=QUIET).out.split())
    assert "Seed it (tf.random.set_seed, of Keras keras.utils.set_random_seed)" in said, said
    assert "--pin seed.python,seed.numpy,seed.tensorflow" in said, said


def test_the_pin_of_threads_reaches_tensorflow(twinrun, tmp_path):
    """Both of its pools have as many threads as the pin says; OMP_NUM_THREADS reaches neither.
    A search learns that TensorFlow was there, so that it does not leave the factor out.
    """
    script = os.path.join(JOBS, "pool.py")
    environment = {**QUIET, "TWINRUN_HOME": str(tmp_path), "TWINRUN_WATCH": "1"}
    found = {}
    for number in (1, 3):
        r = twinrun("run", "--pin", f"threads={number}", "--", PYTHON, script, env=environment)
        assert r.rc == 0, r
        found[number] = [int(word) for word in r.out.split()]
    assert [found[1][0], found[3][0]] == [1, 3] and found[3][1] - found[1][1] == 2, found
    for run in os.listdir(tmp_path / "runs"):
        with open(tmp_path / "runs" / run / "factors") as f:
            met = [line for line in f if "watch.libraries\t" in line]
        assert any(" tensorflow " in line for line in met), met


def test_the_pins_of_seeds_are_what_a_line_of_keras_would_set(twinrun, tmp_path):
    script = os.path.join(JOBS, "seeds.py")
    environment = {**QUIET, "TWINRUN_HOME": str(tmp_path)}
    line = next(n for n, text in enumerate(open(script), 1) if "set_random_seed" in text)
    alone = subprocess.run(
        [PYTHON, script, "seeded"],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert alone.returncode == 0, alone.stderr[-2000:]

    def alike(one, other):
        return [a == b for a, b in zip(one.splitlines(), other.splitlines(), strict=True)]

    def pinned(pins, *args):
        """What the job printed, and what was said of the pin."""
        before = set(os.listdir(tmp_path / "runs")) if os.path.exists(tmp_path / "runs") else set()
        r = twinrun("run", "--pin", pins, "--", PYTHON, script, *args, env=environment)
        assert r.rc == 0, r
        (run,) = set(os.listdir(tmp_path / "runs")) - before
        with open(tmp_path / "runs" / run / "factors") as f:
            rows = [row.rstrip("\n").split("\t") for row in f]
        return r.out, [row[4] for row in rows if row[3] == "effect.seed.tensorflow"]

    first, said = pinned("seed.python,seed.numpy,seed.tensorflow")
    assert said == ["pin tensorflow starts from seed 0"]
    # Keras draws from Python's generator while it is imported, so that one has moved on
    assert alike(first, alone.stdout) == [False, True, False, True, True, True], first
    # the job's own seed wins, and that is told
    out, said = pinned("seed.tensorflow=7", "seeded")
    assert out == alone.stdout
    assert said[1] == f"overridden: the job sets it itself, at {script}:{line}"
    # of what is shaken nothing stays, of what is not all does
    out, said = pinned("seed.python,seed.numpy,seed.tensorflow=vary:1")
    assert alike(out, first) == [True] * 3 + [False] * 3, (out, first)


def test_the_pin_of_onednn_is_what_tensorflow_does_and_the_job_s_own_wins(twinrun, tmp_path):
    script = os.path.join(JOBS, "onednn.py")
    environment = {**QUIET, "TWINRUN_HOME": str(tmp_path)}
    for pin, own, out, said in (
        ("onednn", (), "False", "pinned: onednn;"),
        ("onednn=vary:0", (), "True", "shaken: onednn;"),
        ("onednn", ("1",), "True", "set by the job itself: onednn;"),
    ):
        r = twinrun("run", "--pin", pin, "--", PYTHON, script, *own, env=environment)
        assert (r.rc, r.out) == (0, out + "\n") and said in r.err, r


def test_determinism_is_pinned_and_seeds_are_not(twinrun, tmp_path):
    """Draws without a seed are no error under the pin, and differ in two runs as without it. A job
    that asks for determinism by itself gets TensorFlow's errors, and that is told.
    """
    script = os.path.join(JOBS, "seeds.py")
    environment = {**QUIET, "TWINRUN_HOME": str(tmp_path)}
    job = ("run", "--pin", "tensorflow-deterministic", "--", PYTHON, script)
    own = twinrun(*job, "determined", env=environment)
    assert own.rc == 0 and "set by the job itself: tensorflow-deterministic" in own.err, own
    assert own.out.count("\nrefused ") == 2, own.out
    one, other = (twinrun(*job, "unseeded", env=environment) for _ in range(2))
    assert (one.rc, other.rc) == (0, 0), (one, other)
    assert "pinned: tensorflow-deterministic" in one.err, one.err
    rows = zip(one.out.splitlines(), other.out.splitlines(), strict=True)
    assert len(one.out.splitlines()) == 7 and all(a != b for a, b in rows), (one.out, other.out)


# (factor, job, its argument, what the search says of the line; "": that the job fails under it)
SEARCHES = [
    ("seed.tensorflow", "loop.py", "unseeded", "{job}:{line}, 1 call: " + FIRST),
    ("tensorflow-deterministic", "pipeline.py", "", "data: batch"),
    ("tensorflow-deterministic", "pipeline.py", "stuck", ""),
]


@pytest.mark.parametrize("factor, job, argument, said", turn.part(SEARCHES, len(SEARCHES)))
def test_isolate_names_the_factor_and_check_pinned_proves_the_pin(
    twinrun, home, factor, job, argument, said
):
    """Of a job whose twin (seeded, ordered) is SAME; a pin under which the job fails is none."""
    script = os.path.join(JOBS, job)
    command = ("--", PYTHON, script, *argument.split())
    found = twinrun("isolate", "-q", "--pin", factor, *command, env=QUIET)
    if not said:
        assert found.rc == 3 and "cause " not in found.out, found
        assert f"dropped   the job fails under the pin: {factor}\n" in found.out, found
        return
    assert found.rc == 1 and f"cause     {factor} " in found.out, found
    lines = open(script).read().splitlines()
    line = lines.index(FIRST) + 1 if FIRST in lines else 0
    assert said.format(job=job, line=line) in found.out, found.out
    proved = twinrun("check", "--pinned", *command, env=QUIET)
    assert proved.rc == 0, proved
    assert proved.out.startswith(f"SAME    with {factor} pinned: 4 steps"), proved.out


def test_a_pipeline_that_keeps_the_order_is_the_same(twinrun, home):
    script = os.path.join(JOBS, "pipeline.py")
    same = twinrun("check", "--runs", "2", "--", PYTHON, script, "ordered", env=QUIET)
    assert same.rc == 0 and same.out.startswith("SAME    4 steps"), same.out
