# SPDX-License-Identifier: Apache-2.0
"""Single numbers of collectives that differ: they are named when they are all that differs, and
--ignore 'number:STEPS:GLOB' leaves out them alone.

Both runs of a pair reduce one number in steps 2 to 4, as a program does that adds up its elapsed
times; it has another value in the second run. A mutant changes one thing more: with the option it
must not become the same, and without it the note must not be said.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

from mutant_tools import Copy  # noqa: E402
from test_claims import BUILD, recorded  # noqa: E402, F401
from test_notes import compare, confirmed, states  # noqa: E402
from traces import Edited, record  # noqa: E402
from twinrun.trace import KINDS, PART, PHASES, Series  # noqa: E402

F32, F64, I64 = 10, 13, 12
CALL = "MPI_Allreduce"
OPTION = ("--ignore", "number:2-4:collective/*/MPI_Allreduce")
NOTE = (
    "of all records of run 1 and run 2 only single floating-point numbers of MPI_Allreduce differ, "
    "in steps 2 to 4. They may be elapsed times, or results: that was not tried. If they are "
    "times: --ignore 'number:2-4:collective/*/MPI_Allreduce'"
)
LEFT_OUT = (
    "left out by --ignore 'number:...': single numbers that differ, %d between run 1 and run %d"
)


def add(trace, value, steps=(2, 3, 4), name=CALL, dtype=F64, shape=(1,), **more):
    series = len(trace.series) + 1
    where = PHASES.index("collective"), KINDS.index("in")
    trace.series[series] = Series(*where, trace.string(name), 0, 0, 0, 0)
    layout = trace.layout(dtype, shape)
    for step in steps:
        trace.records.append(record(step, 0, series, layout, (value, value + step), **more))


def pair(recorded, tmp_path, extra=lambda trace, second: None, after=None):  # noqa: F811
    """Two runs with numbers that differ; extra(trace, is it the second run's) changes more."""
    r, out = recorded("values"), []
    for second, original in enumerate((r.a, r.b)):
        copy = Copy(original, tmp_path / "ab"[second])
        name = copy.traces()[0]
        trace = Edited.read(copy.folder / name)
        add(trace, 11 + second)
        extra(trace, bool(second))
        trace.renumber()
        data = trace.sealed()
        copy.write(name, after(data) if after and second else data)
        out.append(copy.folder)
    return out


def test_they_are_named_when_nothing_else_differs(recorded, tmp_path):  # noqa: F811
    verdict = compare(*pair(recorded, tmp_path))
    assert verdict["outcome"] == "differ"
    assert NOTE in verdict["notes"]
    confirmed(verdict, "only single floating-point numbers of MPI_Allreduce differ")


@pytest.mark.parametrize("dtype, shape", [(F64, (1,)), (F32, ()), (F64, (1, 1))])
def test_they_are_left_out(recorded, tmp_path, dtype, shape):  # noqa: F811
    runs = pair(recorded, tmp_path, lambda t, second: add(t, 7 + second, (3,), CALL, dtype, shape))
    verdict = compare(*runs, options=OPTION)
    assert verdict["outcome"] == "same", verdict
    confirmed(verdict, LEFT_OUT % (4, 2))
    assert compare(*runs)["outcome"] == "differ"


def test_of_several_runs_one_pair_is_named(recorded, tmp_path):  # noqa: F811
    a, b = pair(recorded, tmp_path)
    more, other = pair(
        recorded, tmp_path / "more", lambda t, second: add(t, 7 + second, (3,)) if second else None
    )
    verdict = compare(a, more, b, options=OPTION)  # run 2 is as run 1
    assert verdict["outcome"] == "same"
    assert [n for n in verdict["notes"] if "left out" in n] == [LEFT_OUT % (3, 3)]
    confirmed(verdict, "left out by --ignore")
    # one call more in the last run alone
    assert compare(a, b, other, options=OPTION)["outcome"] == "differ"


def test_several_calls(recorded, tmp_path):  # noqa: F811
    runs = pair(recorded, tmp_path, lambda t, second: add(t, 7 + second, (5,), "MPI_Reduce"))
    notes = [text for _, text in states(compare(*runs)) if "only single" in text]
    assert len(notes) == 1 and notes[0].endswith("'number:2-5:collective/*/*'")
    assert compare(*runs, options=("--ignore", "number:2-5:collective/*/*"))["outcome"] == "same"


def another_record(trace, second):
    for i, r in enumerate(trace.records):
        if second and r.step == 3 and trace.strings[trace.series[r.series].name] == b"loss":
            trace.records[i] = r._replace(digest=(r.digest[0] + 1, r.digest[1]))


def one_less(trace, second):
    if second:
        del trace.records[-1]


def one_less_between(trace, second):
    if second:
        del trace.records[-2]


def another_type(trace, second):
    add(trace, 7, (3,), dtype=F32 if second else F64)


def lost_details(trace, second):
    if second:
        trace.dropped[3] = 2


MUTANTS = {
    "a vector of a time and a result": lambda t, second: add(t, 7 + second, (3,), shape=(2,)),
    "a whole number": lambda t, second: add(t, 7 + second, (3,), dtype=I64),
    "a part of a tensor": lambda t, second: add(t, 7 + second, (3,), flags=PART, skipped=9),
    "no element": lambda t, second: add(t, 7 + second, (3,), shape=(0,)),
    "another record": another_record,
    "another type": another_type,
    "one call less": one_less,
    "one call less, in between": one_less_between,
    "one call more": lambda t, second: add(t, 9, (4,)) if second else None,
    "more steps with it": lambda t, second: add(t, 9, (5,)) if second else None,
    "a call of another name": lambda t, second: add(t, 9, (3,), "MPI_Bcast") if second else None,
    "lost details": lost_details,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_not_the_same(recorded, tmp_path, name):  # noqa: F811
    runs = pair(recorded, tmp_path, MUTANTS[name])
    assert compare(*runs, options=OPTION)["outcome"] in ("differ", "inconclusive")
    assert compare(*reversed(runs), options=OPTION)["outcome"] in ("differ", "inconclusive")
    assert not [n for n in compare(*runs)["notes"] if "only single" in n]


def test_damage_is_not_left_out(recorded, tmp_path):  # noqa: F811
    def broken(data):
        at = len(data) // 2
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    runs = pair(recorded, tmp_path, after=broken)
    assert compare(*runs, options=OPTION)["outcome"] != "same"
    assert not [n for n in compare(*runs)["notes"] if "only single" in n]


@pytest.mark.parametrize(
    "pattern",
    ["number:2-3:collective/*/*", "number:3-9:*", "number:2-4:*/MPI_Bcast", "number:2-4:data/*"],
)
def test_steps_and_names_bound_it(recorded, tmp_path, pattern):  # noqa: F811
    verdict = compare(*pair(recorded, tmp_path), options=("--ignore", pattern))
    assert verdict["outcome"] == "differ"


@pytest.mark.parametrize(
    "pattern", ["number:", "number:x:*", "number:4-2:*", "number:2-4:", "number:2-4", "number:-4:*"]
)
def test_bad_patterns_end_at_once(pattern):
    done = subprocess.run(
        [BUILD / "cmd" / "twinrun", "diff", "--ignore", pattern, "--", "a", "b"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert 'FIRST-LAST:GLOB behind "number:"' in done.stderr
