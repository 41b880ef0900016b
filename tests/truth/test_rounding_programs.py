# SPDX-License-Identifier: Apache-2.0
"""Rounding or bug between two programs that share no code (rounding_programs.py)."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import rounding_programs as programs  # noqa: E402
import rounding_tools as tools  # noqa: E402

LINES = Path(programs.__file__).read_text().split("\n")
PAIRS = {
    "sampler": (programs.trainer, programs.sampler, programs.World, programs.SAMPLER_BUGS),
    "port": (programs.module, programs.port, programs.Ported, programs.PORT_BUGS),
}
# Within what A computes in one fused operation: the stretch of B is found, and not the line in it.
WITHIN = {"epsilon", "temperature", "unbiased", "swapped", "bias"}


def answer_of(folder, name, how=""):
    one, other, world, _bugs = PAIRS[name]
    a, b = world(), world()
    return tools.answer(str(folder), lambda: one(a), lambda: other(b, how), programs.__file__)


def line_of(site):
    return int(site.rpartition(":")[2])


@pytest.mark.parametrize("name", PAIRS)
def test_a_program_of_its_own_is_rounding(tmp_path, name):
    answer = answer_of(tmp_path, name)
    assert answer.outcome == "rounding", (answer.finding, answer.notes)


@pytest.mark.parametrize("name, how", [(name, how) for name in PAIRS for how in PAIRS[name][3]])
def test_a_bug_in_it_is_beyond_rounding(tmp_path, name, how):
    answer = answer_of(tmp_path, name, how)
    assert answer.outcome == "beyond rounding", answer.notes
    found = answer.finding
    at = [i for i, line in enumerate(LINES, 1) if "# BUG " + how in line]
    if how in WITHIN:
        assert line_of(found["site"]) <= max(at) <= line_of(found["site"]) + 12
    else:
        assert {line_of(s) for s in (found["site"], *found.get("between", ()))} & set(at)


def test_a_token_that_is_computed_twice_is_no_part(tmp_path):
    """Its calls, one behind the other, are not what A has."""
    w = programs.World()

    def whole():
        return programs.F.linear(w.table[w.tokens], w.out) * 2

    def each(places):
        return [programs.F.linear(w.table[w.tokens[t : t + 1]], w.out) * 2 for t in places]

    good, bad = list(range(programs.T)), [0, 1, 2, 3, 4, 5, 5]
    marked = programs.__file__
    assert tools.answer(str(tmp_path / "1"), whole, lambda: each(good), marked).finding is None
    assert tools.answer(str(tmp_path / "2"), whole, lambda: each(bad), marked).finding is not None
