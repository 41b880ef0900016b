# SPDX-License-Identifier: Apache-2.0
"""The corpus of jobs, alone and watched: nothing may differ (docs/security.md).

`./dev test` runs a fixed part of the product of watching, outputs and limits: every job at the
default level, and over the jobs of a kind every pair of two of the three (of the kind whose jobs
take seconds, every level with every output, and every limit twice: what a limit meets does not know
PyTorch; each of these jobs has one output and one limit, so that one unwatched run serves all of
its settings; beside the default level, half of the levels have their turn, tests/agents/turn.py). TWINRUN_FULL=1 runs all of it (of the jobs that take seconds, all pairs), which is hours
of processor time; TWINRUN_CORPUS_DRAWN=N runs N settings of each job, drawn by its name. A failure
names the job, the setting and what differs.
"""

import itertools
import os
import random
import sys
from pathlib import Path

import pytest
from corpus_jobs import JOBS
from corpus_run import FULL, LIMITS, OUTPUTS, TWINRUN, WATCHED, Natively, Setting, compare

sys.path.insert(0, str(Path(__file__).parents[1] / "agents"))

from turn import part  # noqa: E402

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
DRAWN = int(os.environ.get("TWINRUN_CORPUS_DRAWN", "0"))
MODES = list(WATCHED)
KINDS = ("native", "shell", "python", "torch")


def product():
    return [Setting(w, o, l) for w in MODES for o in OUTPUTS for l in LIMITS]


def cover(meetings):
    """Settings in which every two values of the dimensions that are to meet do so."""
    dimensions = (MODES, OUTPUTS, list(LIMITS))

    def covers(point):
        return {(i, point[i], k, point[k]) for i, k in meetings}

    points = list(itertools.product(*dimensions))
    wanted = set().union(*map(covers, points))
    more = []
    while wanted:
        best = max(points, key=lambda p: len(covers(p) & wanted))
        wanted -= covers(best)
        more.append(Setting(*best))
    return more


def of_slow(jobs):
    """Job -> its settings, for jobs that take seconds. Each has one output and one limit, or none,
    so that one unwatched run serves all of them: the default level, and other levels. The levels of
    an output are dealt to the jobs that have it.
    """
    limits = itertools.cycle([*(limit for limit in LIMITS if limit != "none"), "none"])
    settings = {}
    for n, output in enumerate(OUTPUTS):
        takers = jobs[n :: len(OUTPUTS)]
        others = [watched for watched in MODES if watched != "tensors"]
        for k, job in enumerate(takers):
            limit = next(limits)
            settings[job] = [
                Setting("tensors", output, limit),
                *(Setting(watched, output, limit) for watched in others[k :: len(takers)]),
            ]
    return settings


def pairs():
    """Every two values of two different dimensions meet."""
    return cover(((0, 1), (0, 2), (1, 2)))


def part_of_product():
    """Job -> settings for `./dev test`: the default level once, and what is to meet dealt to the
    jobs in turn.
    """
    chosen = {}
    for kind in KINDS:
        jobs = [job for job in JOBS if job.kind == kind]
        quick = [job for job in jobs if not job.slow]
        if not quick:
            chosen.update(of_slow(jobs))
            continue
        for i, job in enumerate(jobs):
            chosen[job] = [Setting("tensors", OUTPUTS[i % len(OUTPUTS)])]
        for i, setting in enumerate(pairs()):
            chosen[quick[i % len(quick)]].append(setting)
    return chosen


def settings_of(job):
    if DRAWN:
        return random.Random(job.name).sample(product(), DRAWN)
    if not FULL:
        return in_turn(job)
    return pairs() if job.slow else product()


def in_turn(job, number=None):
    """Of a job that takes seconds the default level, and half of the others."""
    if not job.slow:
        return PART[job]
    return part(PART[job], 2, [s for s in PART[job] if s.watched == "tensors"], number)


PART = part_of_product()


@pytest.mark.parametrize("job", JOBS, ids=repr)
def test_nothing_differs(job, tmp_path):
    natively = Natively()
    found = []
    for setting in settings_of(job):
        different, noise = compare(job, setting, tmp_path, natively)
        found += ["%s, %s: %s: %s" % (job, setting, k, v) for k, v in different.items()]
        assert not noise, "%s is not the same twice alone, %s: %s" % (job, setting, noise)
    assert not found, "\n".join(found)


def test_the_part_covers_what_is_said():
    """Levels, outputs and limits meet as said above, in two turns that follow each other where jobs
    take seconds, and no job is left out.
    """
    for job in JOBS:
        assert {*in_turn(job, 0), *in_turn(job, 1)} == set(PART[job]), job
        assert all(any(s.watched == "tensors" for s in in_turn(job, n)) for n in (0, 1)), job
    assert len(JOBS) >= 60 and all(any(s.watched == "tensors" for s in PART[job]) for job in JOBS)
    outputs = set(itertools.product(MODES, OUTPUTS))
    limits = set(itertools.product(MODES, LIMITS))
    for kind in KINDS:
        settings = [s for job in JOBS if job.kind == kind for s in PART[job]]
        assert outputs <= {(s.watched, s.output) for s in settings}, kind
        assert all(sum(s.limit == limit for s in settings) >= 2 for limit in LIMITS), kind
        if kind != "torch":
            assert limits <= {(s.watched, s.limit) for s in settings}, kind
            assert set(itertools.product(OUTPUTS, LIMITS)) <= {
                (s.output, s.limit) for s in settings
            }
