# SPDX-License-Identifier: Apache-2.0
"""ghosts/run itself: what it judges to be wrong, and that what it stages is the ghost that was
asked for.
"""

import importlib.machinery
import importlib.util
import sys

import pytest
from conftest import GHOSTS

sys.path.insert(0, str(GHOSTS))
import suite  # noqa: E402


def load_runner():
    loader = importlib.machinery.SourceFileLoader("ghosts_run", str(GHOSTS / "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ghosts_run", loader))
    loader.exec_module(module)
    return module


RUNNER = load_runner()
TRUTHS = suite.truths()
LAYERS = {
    "data",
    "rng",
    "init",
    "forward",
    "backward",
    "collective",
    "optimizer",
    "checkpoint",
    "environment",
    "hardware",
    "schedule",
    "artifact",
}


class Sizes:
    sizes = {"QUIET": 4, "STEPS": 30}

    @staticmethod
    def as_redrawn(text):
        return text.replace("table", "bodeko")


def answer(outcome, *factors, layer="backward", step=5, reason=""):
    return {
        "outcome": outcome,
        "reason": reason,
        "causes": [{"factor": f} for f in factors],
        "first": {"layer": layer, "step": step},
    }


TWO = {
    "outcome": "isolated",
    "causes": [["entropy"], ["clock", "aslr"]],
    "first": ["backward"],
    "step": ["QUIET", "STEPS"],
}


@pytest.mark.parametrize(
    "said,right,counts",
    [
        (answer("isolated", "clock", "entropy"), True, (2, 2, 2)),
        (answer("isolated", "entropy", "aslr"), True, (2, 2, 2)),
        (answer("isolated", "entropy"), False, (2, 1, 1)),
        (answer("isolated", "entropy", "threads"), False, (2, 2, 1)),
        (answer("isolated", "clock", "aslr"), False, (2, 2, 1)),
        (answer("isolated", "entropy", "clock", "threads"), False, (2, 3, 2)),
        (answer("isolated", "entropy", "clock", layer="data"), False, (2, 2, 2)),
        (answer("isolated", "entropy", "clock", step=3), False, (2, 2, 2)),
        (answer("no-divergence"), False, (2, 0, 0)),
        (answer("not-isolated", reason="outside the pins"), False, (2, 0, 0)),
    ],
)
def test_two_causes(said, right, counts):
    wrong, *found = RUNNER.judge_isolate(TWO, Sizes, said)
    assert (not wrong) == right, wrong
    assert tuple(found) == counts


def test_a_false_friend_may_not_be_blamed():
    want = {"outcome": "no-divergence"}
    assert RUNNER.judge_isolate(want, Sizes, answer("no-divergence"))[0] == []
    assert RUNNER.judge_isolate(want, Sizes, answer("isolated", "clock"))[0]
    assert RUNNER.judge_isolate(want, Sizes, answer("not-isolated"))[0]


def test_an_honest_end_has_a_reason():
    want = {"outcome": "not-isolated", "reason": ["outside the pins"]}
    assert (
        RUNNER.judge_isolate(want, Sizes, answer("not-isolated", reason="outside the pins"))[0]
        == []
    )
    assert RUNNER.judge_isolate(want, Sizes, answer("not-isolated", reason="not enough runs"))[0]
    assert RUNNER.judge_isolate(want, Sizes, answer("isolated", "clock"))[0]


@pytest.mark.parametrize(
    "rank, name, wrong",
    [
        (1, "module.bodeko", []),
        (0, "module.bodeko", ["rank 1, found 0"]),
        (None, "module.bodeko", ["rank 1, found None"]),
        (1, "module.table", ["name /bodeko$/, found 'module.table'"]),
        (0, None, ["rank 1, found 0", "name /bodeko$/, found None"]),
    ],
)
def test_rank_and_name_are_judged_where_the_truth_has_them(rank, name, wrong):
    """The name is that of the copy whose identifiers were redrawn."""
    first = {"layer": "backward", "step": 5, "rank": rank, "name": name}
    place = {"rank": 1, "name": "table$"}
    arms = {"outcome": "differ", "first": {"layer": ["backward"], "step": [0, 9], **place}}
    for found in (
        RUNNER.judge_check(arms, Sizes, {"outcome": "differ", "first": first}),
        RUNNER.judge_isolate(
            TWO | place, Sizes, answer("isolated", "clock", "entropy") | {"first": first}
        )[0],
    ):
        assert found == ["first difference: expected " + line for line in wrong]


def test_the_suite_has_what_it_promises():
    assert len(TRUTHS) >= 36
    assert {truth["layer"] for truth in TRUTHS.values()} == LAYERS
    assert sum(truth["rate"] == "never" for truth in TRUTHS.values()) >= 6


@pytest.mark.parametrize(
    "name", [name for name, truth in TRUTHS.items() if truth["rate"] != "never"]
)
def test_every_ghost_has_a_twin(name):
    """Its own script, or edits each of which changes one place of the source, under any seed."""
    if "twin" in TRUTHS[name]:
        assert (GHOSTS / name / "twin.py").exists()
        return
    source = (GHOSTS / name / ("job.c" if suite.is_c(name) else "job.py")).read_text()
    assert TRUTHS[name]["fix"]
    for old, new in TRUTHS[name]["fix"]:
        assert source.count(old) == 1 and old != new


def test_a_staged_ghost_is_redrawn_from_its_seed(tmp_path):
    sources = []
    for i, seed in enumerate((7, 7, 8)):
        folder = tmp_path / str(i)
        folder.mkdir()
        staged = suite.Staged("hashed-split", TRUTHS["hashed-split"], "twin", str(folder), seed)
        assert TRUTHS["hashed-split"]["fix"][0][1] in (source := open(staged.program).read())
        assert "patient" not in source and "split" not in staged.program
        assert f"SAMPLES = {staged.sizes['SAMPLES']}\n" in source
        sources.append(source)
    assert sources[0] == sources[1] != sources[2]
