# SPDX-License-Identifier: Apache-2.0
"""Parts of a matrix (turn.py): turns that follow each other take all, and a turn can be repeated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import turn


@pytest.mark.parametrize("of", [1, 2, 3, 4])
def test_turns_that_follow_each_other_take_every_case(of, monkeypatch):
    monkeypatch.setattr(turn, "FULL", False)
    cases = ["case %d" % i for i in range(11)]
    for start in (0, 7, 0xFFFFFFFF):
        parts = [turn.part(cases, of, ["case 3"], start + k) for k in range(of)]
        assert sorted(set().union(*parts)) == sorted(cases)
        assert all(len(p) <= 1 + -(-10 // of) and "case 3" in p for p in parts)
        assert all(p == [case for case in cases if case in p] for p in parts)


def test_all_with_full(monkeypatch):
    monkeypatch.setattr(turn, "FULL", True)
    assert turn.part(list(range(9)), 4) == list(range(9))


def test_a_turn_is_the_trees_and_can_be_asked_for():
    here = Path(turn.__file__).parent

    def said(**asked):
        env = {k: v for k, v in os.environ.items() if k != turn.VARIABLE}
        argv = [sys.executable, "-c", "import turn; print(turn.turn())"]
        return subprocess.run(
            argv, cwd=here, env={**env, **asked}, capture_output=True, text=True, check=True
        ).stdout

    assert said(TWINRUN_TEST_TURN="5") == "5\n"
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=here, capture_output=True, text=True
    ).stdout
    assert said() == "%d\n" % int(tree[:8] or "0", 16)
