# SPDX-License-Identifier: Apache-2.0
"""The corpus of jobs, alone and watched: nothing may differ (docs/security.md).

`./dev test` runs a fixed part of the product of watching, outputs and limits: every job at the
default level, and over the jobs of a kind every pair of two of the three. TWINRUN_FULL=1 runs all
of it (of the jobs that take seconds, all pairs), which is hours of processor time;
TWINRUN_CORPUS_DRAWN=N runs N settings of each job, drawn by its name. A failure names the job, the setting and what differs.
"""

import itertools
import os
import random

import pytest
from corpus_jobs import JOBS
from corpus_run import LIMITS, OUTPUTS, TWINRUN, WATCHED, Natively, Setting, compare

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
FULL = os.environ.get("TWINRUN_FULL", "") not in ("", "0")
DRAWN = int(os.environ.get("TWINRUN_CORPUS_DRAWN", "0"))
MODES = list(WATCHED)
OTHERS = ["ops", "modules", "pins", "steps"]
KINDS = ("native", "shell", "python", "torch")


def product():
    return [Setting(w, o, l) for w in MODES for o in OUTPUTS for l in LIMITS]


def pairs():
    """Settings in which every two values of two different dimensions meet at least once."""
    dimensions = (MODES, OUTPUTS, list(LIMITS))
    wanted = set()
    for (i, a), (k, b) in itertools.combinations(enumerate(dimensions), 2):
        wanted |= {(i, x, k, y) for x in a for y in b}
    chosen = []

    def covers(point):
        return {(i, point[i], k, point[k]) for i, k in ((0, 1), (0, 2), (1, 2))}

    points = list(itertools.product(*dimensions))
    while wanted:
        best = max(points, key=lambda p: len(covers(p) & wanted))
        wanted -= covers(best)
        chosen.append(Setting(*best))
    return chosen


def part_of_product():
    """Job -> settings for `./dev test`: the default once, and the pairs dealt to the jobs in turn."""
    chosen = {}
    for kind in KINDS:
        jobs = [job for job in JOBS if job.kind == kind]
        for i, job in enumerate(jobs):
            chosen[job] = [Setting("tensors", OUTPUTS[i % len(OUTPUTS)])]
            if job.slow:
                chosen[job].append(Setting(OTHERS[i % len(OTHERS)]))
        quick = [job for job in jobs if not job.slow]
        for i, setting in enumerate(pairs() if quick else ()):
            chosen[quick[i % len(quick)]].append(setting)
    return chosen


def settings_of(job):
    if DRAWN:
        return random.Random(job.name).sample(product(), DRAWN)
    if not FULL:
        return PART[job]
    return pairs() if job.slow else product()


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


def test_the_part_covers_all_pairs():
    """The pairs are what they are said to be, and no job is left out."""
    met = set()
    for s in pairs():
        met |= {(s.watched, s.output), (s.watched, s.limit), (s.output, s.limit)}
    every = (MODES, OUTPUTS, list(LIMITS))
    for a, b in itertools.combinations(every, 2):
        assert set(itertools.product(a, b)) <= met
    assert len(JOBS) >= 60 and all(PART[job] for job in JOBS)
    assert all(any(s.watched == "tensors" for s in PART[job]) for job in JOBS)
