# SPDX-License-Identifier: Apache-2.0
"""A claim that was altered is never confirmed: each number, name and flag of real verdicts in turn.

Verdicts of mutants are rechecked as they are, and then once for each of their fields with that
field altered. Where the altered claim happens to be true, too, it may be confirmed: those fields
are listed, each with the reason.
"""

import copy
import json
import os
import random
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import campaign  # noqa: E402
import mutants  # noqa: E402
import pool  # noqa: E402
from traces import Edited  # noqa: E402
from twinrun import recheck  # noqa: E402
from twinrun.trace import Stats  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")

# jobs, and the mutants of them whose verdicts are taken
KINDS = {
    "values": (
        "times",
        "digest",
        "drop-record",
        "drop-step",
        "printed-result",
        "exit-code",
        "killed",
    ),
    "ranks": ("digest", "drop-process", "exchange-names"),
    "arrays": ("result-file", "dtype", "permute-occurrences"),
    "threads": ("exchange-names", "twice"),
    "torch": ("digest", "rename", "shape"),
}
TRUE_ALL_THE_SAME = {
    ("noise", "lines.*.*"): "the lines beside these are noise, too",
    ("only-in", "at.*.record"): "of two equal records either is the one too many",
    ("same-range", "tail"): "it is looked at, and what came after the last step is equal",
    ("equal", "equal.*.records"): "of records of one name of which one is missing",
    ("equal", "records"): "the same",
    ("unseen", "text"): "what limits a verdict is stated, not confirmed",
}


def leaves(x, path=()):
    if isinstance(x, (dict, list)):
        for key, value in x.items() if isinstance(x, dict) else enumerate(x):
            yield from leaves(value, path + (key,))
    else:
        yield path, x


def altered(x):
    """Other values of the same type."""
    if isinstance(x, bool):
        return [not x]
    if isinstance(x, int):
        return [x + 1, x - 1]
    if isinstance(x, float):
        return [x * 1.01, -x] if x else [0.5]
    return [x + "x", ""] if isinstance(x, str) and x else []


def with_other(claims, at, path, value):
    claims = copy.deepcopy(claims)
    place = claims[at]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return claims


def refuted(claims, runs, verdict):
    r = recheck.Recheck(claims, runs, verdict)
    return [(c.get("claim"), text) for c in claims for s, text in [r.one(c)] if s == "refuted"]


def field(claim, path):
    return claim["claim"], ".".join("*" if isinstance(k, int) else k for k in path)


def never_confirmed(verdict):
    """Fields of the verdict's claims that can be altered without any claim being refuted."""
    runs, claims = [recheck.Run(d) for d in verdict["runs_dir"]], verdict["claims"]
    assert not refuted(claims, runs, verdict)
    tried, passed = 0, {}
    for i, claim in enumerate(claims):
        for path, value in leaves(claim):
            name = field(claim, path)
            if name in TRUE_ALL_THE_SAME:
                continue
            for other in altered(value):
                tried += 1
                if not refuted(with_other(claims, i, path, other), runs, verdict):
                    passed[name] = (value, other)
    assert tried > 10
    return passed


def verdict_of(a, b):
    verdict = json.loads(campaign.diff(BUILD, a, b)[1])
    assert verdict["claims"]
    return verdict


@pytest.fixture
def recorded():
    def get(job):
        pair = pool.recorded(job, BUILD)
        if pair is None:
            pytest.skip("%s is not installed" % pool.JOBS[job][1])
        return pair

    return get


CASES = [(job, kind) for job, kinds in KINDS.items() for kind in kinds]


@pytest.mark.parametrize("job, kind", CASES, ids=["%s-%s" % c for c in CASES])
def test_no_altered_claim_is_confirmed(recorded, tmp_path, job, kind):
    r = recorded(job)
    for seed in range(5 if FULL else 1):
        place = tmp_path / str(seed)
        make = mutants.HARMFUL.get(kind) or mutants.HARMLESS[kind]
        if make(mutants.Copy(r.b, place), random.Random("%s %s %d" % (job, kind, seed))) is None:
            pytest.skip("not with this job")
        assert never_confirmed(verdict_of(r.a, place)) == {}


def grown(trace, nan_at):
    """A loss that is further and further off from step 2 on, and no number at all in the end."""
    for i, r in enumerate(trace.records):
        if r.step < 2 or not r.stats or trace.strings.get(trace.series[r.series].name) != b"loss":
            continue
        s = r.stats._replace(sum=r.stats.sum * (1 + 1e-4 * 2**r.step))
        s = s._replace(min=s.sum, max=s.sum, sumsq=s.sum * s.sum)
        if r.step >= nan_at:
            s = Stats(1, 1, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        a, b = r.digest
        trace.records[i] = r._replace(digest=(a + r.step, b), stats=s)


@pytest.mark.parametrize("nan_at", [7, 99])
def test_numbers_that_follow(recorded, tmp_path, nan_at):
    """Size, onsets, drift and the first NaN: all of them are claims, and none of them bends."""
    r = recorded("values")
    copy_ = mutants.Copy(r.b, tmp_path / "b")
    name = copy_.traces()[0]
    trace = Edited.read(copy_.folder / name)
    grown(trace, nan_at)
    copy_.write(name, trace.sealed())
    verdict = verdict_of(r.a, copy_.folder)
    kinds = {c["claim"] for c in verdict["claims"]}
    assert {"size", "then", "drift"} <= kinds and ("nan" in kinds) == (nan_at < 8)
    assert never_confirmed(verdict) == {}


def test_a_sentence_without_its_claim(recorded, tmp_path):
    """Each claim taken away leaves a sentence of the verdict without one, or a run not compared."""
    r = recorded("values")
    copy_ = mutants.Copy(r.b, tmp_path / "b")
    name = copy_.traces()[0]
    trace = Edited.read(copy_.folder / name)
    grown(trace, 7)
    copy_.write(name, trace.sealed())
    verdict = verdict_of(r.a, copy_.folder)
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    for i, claim in enumerate(verdict["claims"]):
        if claim["claim"] in ("then", "drift", "nan", "origin", "verdict"):
            rest = verdict["claims"][:i] + verdict["claims"][i + 1 :]
            without = claim["claim"] == "verdict" or refuted(rest, runs, verdict)
            assert without, claim
