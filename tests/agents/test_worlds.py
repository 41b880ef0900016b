# SPDX-License-Identifier: Apache-2.0
"""Gradients and optimizer state between runs of other numbers of ranks under DDP: compared where the
ranks hold them alike behind the reduction, else named.
"""

import glob
import json
import os
import re
import subprocess
import sys

import pytest

import job_pool
from conftest import FULL
from launch_helper import BUILD

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)
JOB = os.path.join(HERE, "torch_jobs", "worlds.py")
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
ALL = "weights, gradients and optimizer state"

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("light")


def recorded(home, *command):
    here = os.path.join(str(home), "here")
    os.makedirs(here, exist_ok=True)
    done = subprocess.run(
        [TWINRUN, "record", "--no-telemetry", "--ledger", "none", "--home", str(home), "--"]
        + [PYTHON, *command],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        cwd=here,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return glob.glob(os.path.join(str(home), "runs", "*"))[0]


def shared(ranks, *words):
    with open(JOB) as f:
        key = ("worlds", f.read(), PYTHON, ranks, words)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=%d" % ranks]
    command = (*(launcher if ranks > 1 else []), JOB, *words)
    return job_pool.pooled(key, lambda home: recorded(home, *command))


def by_hand(home, ranks, *words):
    """A run of the job that records by hand."""
    return recorded(home, os.path.join(HERE, "worlds_job.py"), str(ranks), *words)


def rechecked(verdict, home):
    path = os.path.join(str(home), "verdict.json")
    with open(path, "w") as f:
        json.dump(verdict, f)
    return subprocess.run(
        [sys.executable, "-m", "twinrun.recheck", path],
        env=dict(os.environ, PYTHONPATH=os.path.join(HERE, "..", "..", "python")),
        capture_output=True,
        text=True,
        timeout=300,
    )


def judged(home, a, b, *options):
    """The verdict of two runs, of which the second reader confirms every claim."""
    done = subprocess.run(
        [TWINRUN, "diff", "--json", *options, "--home", str(home), a, b],
        capture_output=True,
        text=True,
        timeout=300,
    )
    verdict = json.loads(done.stdout)
    checked = rechecked(verdict, home)
    assert checked.returncode == 0 and ", 0 refuted" in checked.stdout, checked.stdout
    return verdict


def rules(verdict):
    return next(c["rules"] for c in verdict["claims"] if c["claim"] == "same-range")


def test_any_number_of_ranks(tmp_path):
    one, two, four = shared(1, "whole"), shared(2, "ddp"), shared(4, "ddp")
    for a, b in ((one, two), (two, four), (four, one)):
        verdict = judged(tmp_path, a, b)
        assert verdict["outcome"] == "same", verdict
        assert {"with-gradients", "with-moments"} <= set(rules(verdict))
        assert any(ALL + " can be compared" in n for n in verdict["notes"]), verdict["notes"]
        assert not any("not compared" in n for n in verdict["notes"]), verdict["notes"]


def test_what_was_not_reduced_is_not_compared(tmp_path):
    """The job reduces by itself: what its backward left is of one rank's share of the batch."""
    verdict = judged(tmp_path, shared(2, "by_hand"), shared(4, "ddp"))
    assert verdict["outcome"] == "same", verdict
    assert "with-gradients" not in rules(verdict) and "with-moments" in rules(verdict)
    assert any(
        n.startswith("gradients of run 1, such as 0.")
        and n.endswith("nothing says that they were recorded behind the reduction over all ranks")
        for n in verdict["notes"]
    ), verdict["notes"]


@pytest.mark.skipif(not FULL, reason="in the full test")
def test_two_backward_passes(tmp_path):
    verdict = judged(tmp_path, shared(2, "no_sync"), shared(4, "ddp"))
    assert verdict["outcome"] == "same", verdict


def test_optimizer_state_that_differs(tmp_path):
    verdict = judged(tmp_path, shared(2, "ddp", "all"), shared(4, "ddp"))
    assert verdict["outcome"] == "differ", verdict
    first = verdict["first"]
    assert (first["name"], first["step"]) == ("0.weight.exp_avg", 2), first
    assert first["role"] == "unknown"
    for false in ("the %s of steps 0 to 1" % ALL, "the weights of steps 0 to 2"):
        text = "weights (as step 1 left them) of step 2, and " + false
        checked = rechecked(dict(verdict, equal_before=text), tmp_path)
        assert checked.returncode == 1, checked.stdout


def test_what_was_equal_before(tmp_path):
    """The hash of a phase is of records, too, that are not compared: gradients that the job wrote."""
    verdict = judged(tmp_path, shared(2, "ddp", "late"), shared(4, "ddp"))
    assert verdict["outcome"] == "differ", verdict
    equal = [c for c in verdict["claims"] if c["claim"] == "equal"]
    assert any(e["what"] == "weights" for c in equal for e in c["equal"]), verdict


@pytest.mark.skipif(not FULL, reason="in the full test")
def test_optimizer_state_of_one_rank(tmp_path):
    verdict = judged(tmp_path, shared(2, "ddp", "one"), shared(4, "ddp"))
    assert verdict["outcome"] == "inconclusive", verdict
    said = "run 1: optimizer state 0.weight.exp_avg: rank 1 holds other values than rank 0"
    assert said in verdict["unseen"]


@pytest.mark.parametrize("ranks, kind", [(2, "ddp"), (2, "by_hand")])
@pytest.mark.parametrize("word", ["with-gradients", "with-moments"])
def test_forged(tmp_path, ranks, kind, word):
    """Who says that more was compared, or less, is refuted."""
    verdict = judged(tmp_path, shared(ranks, kind), shared(4, "ddp"))
    for c in verdict["claims"]:
        if "rules" in c:
            said = set(c["rules"])
            c["rules"] = sorted(said - {word} if word in said else said | {word})
    checked = rechecked(verdict, tmp_path)
    assert checked.returncode == 1 and "refuted" in checked.stdout, checked.stdout


def test_forged_sentences(tmp_path):
    verdict = judged(tmp_path, shared(2, "by_hand"), shared(4, "ddp"))
    forged = {
        "only rank 0's weights and optimizer state": "only rank 0's " + ALL,
        "nothing says that they were recorded behind the reduction over all ranks": "there are "
        "several of one name in a step, of other backward passes",
        "gradients of run 1": "gradients of run 2",
    }
    for true, false in forged.items():
        changed = json.loads(json.dumps(verdict).replace(true, false))
        assert changed != verdict
        checked = rechecked(changed, tmp_path)
        assert checked.returncode == 1, (false, checked.stdout)


def test_ranks_that_were_started_again(tmp_path):
    """Each attempt has its own rank 0, which stands for the others of that attempt alone."""
    words = ("again",), ("again", "alone")
    one = by_hand(tmp_path / "one", 1, "again")
    for i, with_words in enumerate(words):
        two = by_hand(tmp_path / str(i), 2, *with_words)
        verdict = judged(tmp_path, one, two)
        assert verdict["outcome"] == "same", verdict
        said = ["with-moments" in c["rules"] for c in verdict["claims"] if "rules" in c]
        assert said == [i == 0, True], said  # what rank 0 alone recorded stands for nobody


def test_what_is_ignored(tmp_path):
    """Optimizer state that each rank has for itself is no reason against "same" where it is ignored."""
    one, two = (by_hand(tmp_path / str(n), n, "own") for n in (1, 2))
    verdict = judged(tmp_path, one, two)
    assert verdict["unseen"] == [
        "run 2: optimizer state err: rank 1 holds other values than rank 0"
    ]
    verdict = judged(tmp_path, one, two, "--ignore", "optimizer/moment/err")
    assert verdict["outcome"] == "same" and "with-moments" in rules(verdict), verdict
    verdict = judged(tmp_path, one, two, "--ignore", "optimizer/moment/*")
    assert verdict["outcome"] == "same" and "with-moments" not in rules(verdict), verdict


def test_some_state_of_each_rank(tmp_path):
    """Optimizer state that the ranks share out is named, and what all hold beside it is compared."""
    one, two = (by_hand(tmp_path / str(n), n, "share") for n in (1, 2))
    verdict = judged(tmp_path, one, two)
    assert verdict["outcome"] == "same" and "with-moments" in rules(verdict), verdict
    said = r"optimizer state of run 2, such as w[0-3]\.m, was not compared: each rank holds its own"
    assert any(re.fullmatch(said, n) for n in verdict["notes"]), verdict["notes"]


def some_steps(home, kind):
    """Two runs of a program without PyTorch, as one process and as two."""
    job = os.path.join(HERE, "torch_jobs", "some_steps.py")
    return [recorded(home / str(n), job, str(n), kind) for n in (1, 2)]


def by_policy(home):
    policy = home / "policy.toml"
    policy.write_text('[[tolerance]]\npattern = "*"\nrel_l2 = 1e-3\nreason = "x"\n')
    return ["--tolerance", str(policy)]


def test_within_tolerance_needs_weights(tmp_path):
    """Optimizer state of each step does not stand for weights, also for the second reader."""
    verdict = judged(tmp_path, *some_steps(tmp_path, "first"), *by_policy(tmp_path))
    assert verdict["outcome"] == "differ", verdict
    said = "weights, gradients or outputs: not at 2 of 3 steps, first at step 1"
    assert "not judged by the tolerance: " + said in verdict["notes"], verdict["notes"]
    verdict.update(outcome="within-tolerance", unseen=[])
    verdict["claims"] = [c for c in verdict["claims"] if c["claim"] != "unseen"]
    for c in verdict["claims"]:
        if c["claim"] == "verdict":
            c["outcome"] = "within-tolerance"
    checked = rechecked(verdict, tmp_path)
    assert checked.returncode == 1, checked.stdout
    assert "step 1: no weights were compared" in checked.stdout, checked.stdout


def test_what_some_steps_have(tmp_path):
    """The steps behind the first difference, which a tolerance judges, have what the first had not."""
    verdict = judged(tmp_path, *some_steps(tmp_path, "later"), *by_policy(tmp_path))
    assert verdict["outcome"] == "within-tolerance", verdict
    some = ", optimizer state in 2 of 3, the first step 1 and the last step 2"
    whole = "only rank 0's weights can be compared in every step" + some
    assert any(n.endswith(whole) for n in verdict["notes"]), verdict["notes"]
    for false in (
        whole.replace("in 2 of 3, the first step 1", "in 3 of 3, the first step 0"),
        whole.replace(" in every step" + some, ""),
        "only rank 0's weights and optimizer state can be compared",
    ):
        changed = json.loads(json.dumps(verdict).replace(whole, false))
        checked = rechecked(changed, tmp_path)
        assert checked.returncode == 1, (false, checked.stdout)
