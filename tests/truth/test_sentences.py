# SPDX-License-Identifier: Apache-2.0
"""Sentences of verdicts, each provoked by what makes it true; and no sentence without a test.

A scenario changes copies of two equal runs of one job and names a part of the sentence that the
verdict must then print. sentences.py finds those parts here and in the other tests.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import mutants  # noqa: E402
import pool  # noqa: E402
import sentences  # noqa: E402
from traces import Edited, record  # noqa: E402
from twinrun.trace import KINDS, PHASES, STATS, Series, Stats  # noqa: E402

BUILD = Path(os.environ.get("TWINRUN_BUILD", HERE.parents[1] / "build")).resolve()


def edit(copy, change, which=0):
    name = copy.traces()[which]
    trace = Edited.read(copy.folder / name)
    change(trace)
    copy.write(name, trace.sealed())


def set_run(copy, **fields):
    run = copy.run
    run.update(fields)
    copy.run = run


def named(trace, name, step):
    """Index of the first record of a name in a step."""
    for i, r in enumerate(trace.records):
        if r.step == step and trace.strings.get(trace.series[r.series].name) == name:
            return i
    raise KeyError(name)


def other(trace, name, step, by=1):
    i = named(trace, name, step)
    a, b = trace.records[i].digest
    trace.records[i] = trace.records[i]._replace(digest=(a + by, b))


def as_kind(trace, phase, kind):
    changes = dict(phase=PHASES.index(phase), kind=KINDS.index(kind))
    trace.series = {i: s._replace(**changes) for i, s in trace.series.items()}
    trace.renumber()


def add_series(trace, name, phase, kind, step, digest, op=""):
    series = len(trace.series) + 1
    where = PHASES.index(phase), KINDS.index(kind)
    by = trace.string(op) if op else 0
    trace.series[series] = Series(*where, trace.string(name), 0, 0, by, 0)
    trace.records.append(record(step, 0, series, 0, digest))
    trace.renumber()


# ---- scenarios: (job, part of the sentence, change)


def still_going_on(a, b):
    ticks = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    run = b.run
    run["launcher"] = dict(pid=os.getpid(), start_ticks=int(ticks), boot_id=boot)
    run.pop("outcome")
    b.run = run


def no_inputs(a, b):
    for copy in (a, b):
        edit(copy, lambda t: as_kind(t, "optimizer", "weight"))


def no_results(a, b):
    for copy in (a, b):
        edit(copy, lambda t: as_kind(t, "data", "batch"))


def no_inputs_at_some(a, b):
    def change(t):
        t.records = [r for r in t.records if r.step != 3 or t.series[r.series].kind != 1]
        t.renumber()

    edit(a, change), edit(b, change)


def agent_error(a, b):
    edit(b, lambda t: t.notes.append((b"agent.error", b"no memory for a hook")))


def not_armed(a, b):
    run = b.run
    run["processes"][0].update(armed=False, why="static binary")
    b.run = run


def nothing_left(a, b):
    (b.folder / b.traces()[0]).unlink()
    set_run(b, exit_code=1)


def tail_bytes(a, b):
    name = b.traces()[0]
    b.write(name, (b.folder / name).read_bytes() + b"x" * 100)


def unreadable_trace(a, b):
    b.write(b.traces()[0], b"not a trace" * 100)


def empty_trace(a, b):
    name = b.traces()[0]
    b.write(name, (b.folder / name).read_bytes()[:512])


def damaged_block(a, b):
    name = b.traces()[0]
    data = bytearray((b.folder / name).read_bytes())
    data[len(data) - 2000] ^= 1
    b.write(name, bytes(data))


def lost_calls(a, b):
    edit(b, lambda t: setattr(t, "lost", 7))


def idle_generator(a, b):
    edit(a, lambda t: add_series(t, "python", "rng", "state", 2, (1, 1)))
    edit(b, lambda t: add_series(t, "python", "rng", "state", 2, (2, 2)))


def idle_from_the_start(a, b):
    edit(a, lambda t: add_series(t, "python", "init", "state", 2, (1, 1)))
    edit(b, lambda t: add_series(t, "python", "init", "state", 2, (2, 2)))


def generator_set_again(a, b):
    for copy, state in ((a, 1), (b, 2)):
        edit(copy, lambda t, n=state: add_series(t, "python", "init", "state", 2, (n, n)))
        edit(copy, lambda t: add_series(t, "python", "rng", "state", 2, (9, 9), "user code"))


def collective(local):
    def scenario(a, b):
        for copy in (a, b):
            for which in (0, 1):

                def change(t, copy=copy):
                    reduced = (3, 3) if copy is a else (4, 4)
                    if local:
                        add_series(t, "g", "backward", "gradient (local)", 2, (1, 1))
                    add_series(t, "g", "backward", "gradient", 2, reduced)

                edit(copy, change, which)

    return scenario


def both_ranks(a, b):
    for which in (0, 1):
        edit(b, lambda t: other(t, b"w", 2), which)


def not_a_number(a, b):
    def change(t):
        i = named(t, b"loss", 3)
        bad = Stats(1, 1, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        t.records[i] = t.records[i]._replace(flags=t.records[i].flags | STATS, stats=bad)
        other(t, b"loss", 3)

    edit(b, change)


def details_lost(a, b):
    for copy in (a, b):

        def change(t):
            from twinrun.trace import Trace

            step = next(s for s in Trace(t.sealed()).steps() if s.step == 4)
            t.kept[4] = step
            t.records = [r for r in t.records if r.step != 4 or r.seq != step.records]
            t.dropped[4] = 1

        edit(copy, change)


def second_of_a_name(a, b):
    def change(t):
        i = [n for n, r in enumerate(t.records) if r.step == 2 and r.occurrence == 1][0]
        t.records[i] = t.records[i]._replace(digest=(5, 5))

    edit(b, change)


def not_observed(a, b):
    set_run(b, agents=False)
    for name in b.traces():
        (b.folder / name).unlink()


def many_reasons(a, b):
    for k in range(9):
        edit(b, lambda t, k=k: t.notes.append((b"unseen", b"part %d of the job" % k)))


def one_rank_less(a, b):
    (b.folder / b.traces()[1]).unlink()


SCENARIOS = [
    ("values", "run 2 is still going on", still_going_on),
    ("stepless", "batches or inputs: no record of any", no_inputs),
    ("stepless", "weights, gradients or outputs: no record of any", no_results),
    ("values", "batches or inputs: not at 1 of 8 steps, first at step 3", no_inputs_at_some),
    ("values", "the agent reported: no memory for a hook", agent_error),
    ("values", "agent not armed:", not_armed),
    ("values", "; run 2 left no records", nothing_left),
    ("values", "bytes after its last good block", tail_bytes),
    ("values", "a trace cannot be read:", unreadable_trace),
    ("values", "nothing is left in the trace of a process that recorded", empty_trace),
    ("values", "a trace is damaged:", damaged_block),
    ("values", "7 calls of rank 0 (main) could not be recorded", lost_calls),
    (
        "values",
        "generator python differs too, but nothing was seen to draw from it",
        idle_generator,
    ),
    (
        "values",
        "generator python differs at the start, too: whether something drew from it before that",
        idle_from_the_start,
    ),
    (
        "values",
        "generator python differs at the start, and agrees after user code moved it, as all else",
        generator_set_again,
    ),
    ("ranks", "were equal on every rank: they diverged in the reduction", collective(True)),
    ("ranks", "so whether they or the reduction diverged is not known", collective(False)),
    ("ranks", "diverging in the same step: rank", both_ranks),
    ("values", "(no other run has one)", not_a_number),
    ("values", "their values were still compared; --lossless keeps them", details_lost),
    ("values", "(number 2 of the step)", second_of_a_name),
    ("values", "run 2 was not observed", not_observed),
    ("values", "more: --json lists all", many_reasons),
    ("ranks", "in which processes recorded", one_rank_less),
]


@pytest.fixture
def runs():
    return lambda job: pool.recorded(job, BUILD)


def said(a, b, *more):
    env = pool.environment("/nonexistent")
    argv = [BUILD / "cmd" / "twinrun", "diff", *more, a, b]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    return re.sub(r"\s+", " ", done.stdout)


@pytest.mark.parametrize("job, part, change", SCENARIOS, ids=[s[1][:40] for s in SCENARIOS])
def test_provoked(runs, tmp_path, job, part, change):
    r = runs(job)
    a, b = mutants.Copy(r.a, tmp_path / "a"), mutants.Copy(r.b, tmp_path / "b")
    assert part not in said(a.folder, b.folder)
    change(a, b)
    text = said(a.folder, b.folder)
    everything = json.dumps(text) + said(a.folder, b.folder, "--json").replace('\\"', '"')
    assert part in text or part in everything, text


def test_rate_of_three_runs(runs, tmp_path):
    r = runs("values")
    a, b, c = (mutants.Copy(r.b, tmp_path / x) for x in "abc")
    edit(c, lambda t: other(t, b"w", 2))
    text = said(a.folder, b.folder, c.folder)
    assert "1 of 2 comparisons diverged: 50% (95% interval" in text


def test_no_sentence_without_a_test():
    missing = [s for s, _, test in sentences.table() if test is None]
    assert not missing, "provoke these here, or in another test"
