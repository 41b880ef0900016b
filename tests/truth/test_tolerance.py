# SPDX-License-Identifier: Apache-2.0
"""WITHIN TOLERANCE carries its proof: the numbers of each judged step, and of each rule.

What was judged is measured again from the recordings; a verdict that was altered, and one that says
"within tolerance" of recordings that do not carry it, are refuted.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import pool  # noqa: E402
from mutant_tools import Copy  # noqa: E402
from test_claims import BUILD, never_confirmed, recheck, recorded, refuted  # noqa: E402, F401
from traces import Edited  # noqa: E402
from twinrun.trace import UNOBSERVED  # noqa: E402

POLICY = '[[tolerance]]\npattern = "%s"\n%s\nreason = "a test"\n'


def diff(a, *others, policy=("*", "rel_l2 = 1e-3"), options=()):
    """The verdict of `diff --tolerance` over run folders."""
    path = others[0].parent / "policy.toml"
    path.write_text(POLICY % policy + POLICY % ("unused/*", "abs = 1.0"))
    done = subprocess.run(
        [
            BUILD / "cmd" / "twinrun",
            "diff",
            "--json",
            "--tolerance",
            path,
            *options,
            "--",
            a,
            *others,
        ],
        env=pool.environment(others[0].parent / "home"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def kinds(verdict, word):
    return [c for c in verdict["claims"] if c["claim"] == word]


def changed(recorded, tmp_path, name, factor, since=3, what=b"loss", edit=None):  # noqa: F811
    """A copy of the second run of a job, whose single numbers of a name are `factor` as large."""
    r = recorded("values")
    copy = Copy(r.b, tmp_path / name)
    trace_name = copy.traces()[0]
    trace = Edited.read(copy.folder / trace_name)
    for i, row in enumerate(trace.records):
        named = trace.strings.get(trace.series[row.series].name) == what
        if row.step < since or not row.stats or not named:
            continue
        total = row.stats.sum * factor
        s = row.stats._replace(sum=total, min=total, max=total, sumsq=total * total)
        a, b = row.digest
        trace.records[i] = row._replace(digest=(a + 1, b), stats=s)
    if edit:
        edit(trace)
    copy.write(trace_name, trace.sealed())
    return copy.folder


def proves(verdict, outcome, but=()):
    """Every claim holds, and none of them bends, but for those that stay true."""
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert verdict["outcome"] == outcome, verdict["notes"]
    assert refuted(verdict["claims"], runs, verdict) == []
    assert set(never_confirmed(verdict)) == set(but)


def test_inside(recorded, tmp_path):  # noqa: F811
    verdict = diff(recorded("values").a, changed(recorded, tmp_path, "b", 1 + 1e-6))
    (claim,) = kinds(verdict, "tolerance")
    assert claim["inside"] and (claim["first"], claim["last"]) == (3, 8) and claim["measured"] == 5
    assert [s[0] for s in claim["steps"]] == [3, 4, 5, 6, 7]
    assert all(math.isclose(s[4], 1e-3, rel_tol=1e-3) for s in claim["steps"])
    used, unused = kinds(verdict, "rule")
    assert (used["matched"], used["measured"], unused["matched"]) == (5, 5, 0)
    proves(verdict, "within-tolerance")


def test_of_three_runs_each_is_judged_once(recorded, tmp_path):  # noqa: F811
    b = changed(recorded, tmp_path, "b", 1 + 1e-6)
    c = changed(recorded, tmp_path, "c", 1 + 2e-6, since=6)
    verdict = diff(recorded("values").a, b, c)
    assert [(k["runs"], k["measured"]) for k in kinds(verdict, "tolerance")] == [
        ([1, 2], 5),
        ([1, 3], 2),
    ]
    assert kinds(verdict, "rule")[0]["matched"] == 7
    # lines that differ in times alone do so in each of the runs
    proves(verdict, "within-tolerance", but=[("noise", "runs.*")])


@pytest.mark.parametrize(
    "policy",
    [("*", "abs = 1.0"), ("loss", "rtol = 1e-5\natol = 1e-7"), ("forward/*", "ulp = 1e12")],
)
def test_each_way_to_allow(recorded, tmp_path, policy):  # noqa: F811
    verdict = diff(recorded("values").a, changed(recorded, tmp_path, "b", 1 + 1e-6), policy=policy)
    proves(verdict, "within-tolerance")


def test_outside(recorded, tmp_path):  # noqa: F811
    def late(trace):
        for i, row in enumerate(trace.records):
            if row.step == 6 and trace.strings.get(trace.series[row.series].name) == b"loss":
                s = row.stats._replace(sum=row.stats.sum * 2)
                trace.records[i] = row._replace(
                    stats=s._replace(min=s.sum, max=s.sum, sumsq=s.sum**2)
                )

    verdict = diff(recorded("values").a, changed(recorded, tmp_path, "b", 1 + 1e-6, edit=late))
    (claim,) = kinds(verdict, "tolerance")
    assert not claim["inside"] and (claim["last"], claim["outside"], claim["measured"]) == (6, 1, 3)
    proves(verdict, "differ")


def test_not_measured(recorded, tmp_path):  # noqa: F811
    """A tensor without a sketch."""

    def bare(trace):
        for i, row in enumerate(trace.records):
            if (
                row.step == 4
                and trace.strings.get(trace.series[row.series].name) == b"w"
                and row.stats
            ):
                trace.records[i] = row._replace(digest=(1, 2), sketch=None, flags=row.flags & ~2)

    verdict = diff(recorded("values").a, changed(recorded, tmp_path, "b", 1 + 1e-6, edit=bare))
    assert kinds(verdict, "tolerance")[0]["unmeasured"] > 0
    proves(verdict, "differ")


def liar(verdict, a, b):
    """What says "within tolerance" of other recordings than those that it was made of."""
    verdict = json.loads(json.dumps(verdict))
    runs = [recheck.Run(a), recheck.Run(b)]
    return refuted(verdict["claims"], runs, verdict)


def unread(step, name=b"x"):
    def edit(trace):
        for i, row in enumerate(trace.records):
            if row.step == step and trace.strings.get(trace.series[row.series].name) == name:
                trace.records[i] = row._replace(
                    flags=row.flags & ~3 | UNOBSERVED, stats=None, sketch=None
                )

    return edit


def test_of_other_recordings(recorded, tmp_path):  # noqa: F811
    """The verdict of a pair that is inside, held against pairs that are not."""
    a = recorded("values").a
    good = diff(a, changed(recorded, tmp_path, "b", 1 + 1e-6))
    assert liar(good, a, tmp_path / "b") == []
    for k, (factor, since, edit) in enumerate(
        [(1.1, 3, None), (1 + 1e-6, 2, None), (1 + 1e-6, 3, unread(6)), (1 + 1e-6, 3, unread(1))]
    ):
        other = changed(recorded, tmp_path, "bad%d" % k, factor, since=since, edit=edit)
        assert liar(good, a, other), k


@pytest.mark.parametrize("step", [1, 5])
def test_records_that_neither_run_could_read(recorded, tmp_path, step):  # noqa: F811
    """In a step without a difference, and in one with a difference that is inside."""
    r = recorded("values")
    first = Copy(r.a, tmp_path / "a")
    name = first.traces()[0]
    trace = Edited.read(first.folder / name)
    unread(step)(trace)
    first.write(name, trace.sealed())
    verdict = diff(first.folder, changed(recorded, tmp_path, "b", 1 + 1e-6, edit=unread(step)))
    assert verdict["outcome"] == "differ"
    assert any("not judged by the tolerance" in n for n in verdict["notes"]), verdict["notes"]
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert refuted(verdict["claims"], runs, verdict) == []
    lie = json.loads(json.dumps(verdict))
    lie["outcome"] = lie["claims"][0]["outcome"] = "within-tolerance"
    lie["claims"] = [c for c in lie["claims"] if c["claim"] != "unseen"]
    lie["unseen"] = []
    assert refuted(lie["claims"], runs, lie)


def test_the_first_run_is_the_odd_one(recorded, tmp_path):  # noqa: F811
    """The largest class is the usual one, also where the first run is not in it."""
    b = changed(recorded, tmp_path, "b", 1 + 1e-6)
    c = Copy(b, tmp_path / "c").folder
    verdict = diff(recorded("values").a, b, c)
    assert [k["runs"] for k in kinds(verdict, "class")] == [[1], [2, 3]] and verdict[
        "differing"
    ] == 1
    # runs 2 and 3 hold the same: what is said of one is true of the other
    proves(
        verdict, "within-tolerance", but=[(k, "runs.*") for k in ("noise", "size", "drift", "then")]
    )


def test_a_judgement_that_is_missing(recorded, tmp_path):  # noqa: F811
    """Without the claim of a process, without a rule, or with one more, the outcome has
    no proof.
    """
    a = recorded("values").a
    verdict = diff(a, changed(recorded, tmp_path, "b", 1 + 1e-6))
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    for i, claim in enumerate(verdict["claims"]):
        rest = verdict["claims"][:i] + verdict["claims"][i + 1 :]
        if claim["claim"] in ("tolerance", "rule", "same-range"):
            assert refuted(rest, runs, verdict), claim
    failed = Copy(tmp_path / "b", tmp_path / "failed")
    run = failed.run
    run["exit_code"] = 3
    failed.run = run
    assert liar(verdict, a, failed.folder)
