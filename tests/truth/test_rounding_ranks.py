# SPDX-License-Identifier: Apache-2.0
"""Rounding or bug between two numbers of ranks: the steps of rounding_ranks.py, recorded by torchrun
with one process and with two.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import rounding_ranks as cases  # noqa: E402
import rounding_tools as tools  # noqa: E402
from pool import LIGHT_SITE  # noqa: E402
from turn import FULL  # noqa: E402

LINES = Path(cases.__file__).read_text().split("\n")
# A, the one that rounds more, is only further from what both mean: B is not to blame
LAWFUL_BACKWARDS = {"summed_in_bfloat16"}
# from two ranks to one: what is there before is not a share of anything
UNKNOWN_BACKWARDS = {"shares_that_overlap"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    # as conftest.light says: which operations a step has, the compiler does not decide
    light = {} if FULL else {"PYTHONPATH": str(LIGHT_SITE)}
    for world in ("1", "2"):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", world, cases.__file__, str(folder)]
        done = subprocess.run(
            command,
            env={**os.environ, **light, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    return folder


def answer_of(recorded, name, a=1, b=2):
    where = recorded / name
    return tools.judge.judge(tools.joined(where, a), tools.joined(where, b))


def marked(site):
    number = site.rpartition(":")[2]
    return number.isdigit() and "# BUG" in LINES[int(number) - 1]


@pytest.mark.parametrize("name", cases.LAWFUL)
def test_the_step_of_two_ranks_is_that_of_one(recorded, name):
    answer = answer_of(recorded, name)
    assert answer.outcome == "rounding", (answer.finding, answer.notes)


@pytest.mark.parametrize("name", cases.LAWFUL)
def test_and_the_step_of_one_that_of_two(recorded, name):
    answer = answer_of(recorded, name, 2, 1)
    assert answer.outcome == "rounding", (answer.finding, answer.notes)


@pytest.mark.parametrize("name", cases.BUGS)
def test_a_bug_between_ranks_is_found_where_it_is(recorded, name):
    answer = answer_of(recorded, name)
    found = answer.finding
    assert any(marked(site) for site in (found["site"], *found.get("between", ()))), found


@pytest.mark.parametrize("name", cases.BUGS)
def test_a_bug_of_the_ranks_of_a_is_no_rounding(recorded, name):
    outcome = answer_of(recorded, name, 2, 1).outcome
    if name in LAWFUL_BACKWARDS:
        assert outcome == "rounding"
    else:
        assert outcome == ("not known" if name in UNKNOWN_BACKWARDS else "beyond rounding")


def test_a_mean_that_was_forgotten_is_named_with_its_factor(recorded):
    found = answer_of(recorded, "mean_forgotten").finding
    assert found["operation"] == "c10d.allreduce_.default"
    assert found["why"] == "it is 2 times what A has there"


def test_one_share_for_all_ranks_is_said(recorded):
    notes = " ".join(answer_of(recorded, "one_share_for_all").notes)
    assert "the same share of the data?" in notes


def test_a_rank_that_is_missing_is_not_known(recorded):
    """Its collectives have nobody to meet: nothing behind them is judged."""
    where = recorded / "summed_and_divided"
    lone = tools.ranks.Joined({0: tools.recording.Recording(str(where / "2.0"))})
    answer = tools.judge.judge(tools.joined(where, 1), lone)
    assert answer.outcome == "not known" and answer.finding is None, answer.finding
    assert "has no counterpart on another rank" in " ".join(answer.notes)
