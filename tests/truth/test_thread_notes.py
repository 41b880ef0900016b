# SPDX-License-Identifier: Apache-2.0
"""With how many threads PyTorch computed in two runs: said where both told it of the same rank, and
they differ; never as a cause, and never of another rank.

The job needs no PyTorch: the tests write what its agent writes (docs/format/run-folder.md).
"""

import json
import re
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

from mutant_tools import Copy  # noqa: E402
from test_claims import recheck, recorded  # noqa: E402, F401
from test_notes import compare, states, survivors  # noqa: E402
from traces import Edited  # noqa: E402
from twinrun.trace import KINDS  # noqa: E402

CANNOT = "; whether what differs comes from that, a comparison cannot tell"


def run(original, folder, told, differs=False):
    """A copy of a run whose ranks told these numbers of threads: {rank: (first, ...)}.

    differs: each result of step 3 is another one.
    """
    copy = Copy(original, folder)
    for name in copy.traces():
        trace = Edited.read(copy.folder / name)
        lines = "".join("setting\tthreads %s\n" % n for n in told.get(trace.rank, ()))
        world = "worlds/" + Path(name).stem
        path = copy.folder / world
        before = path.read_bytes() if path.exists() else b""
        path.parent.mkdir(exist_ok=True)
        copy.write(world, before + b"setting\tinterop_threads 64\n" + lines.encode())
        if differs:
            for i, r in enumerate(trace.records):
                if r.step == 3:
                    trace.records[i] = r._replace(digest=(r.digest[0] ^ 1, r.digest[1]))
            copy.write(name, trace.sealed())
    return copy.folder


def told(verdict):
    return [n for n in verdict["notes"] if "threads" in n]


def judged(recorded, tmp_path, a, b, differs=True, job="ranks"):  # noqa: F811
    r = recorded(job)
    x = run(r.a, tmp_path / "a", a)
    return compare(x, run(r.b, tmp_path / "b", b, differs=differs))


@pytest.mark.parametrize(
    "a, b, said",
    [
        ({0: (2, 2)}, {0: (3, 3)}, "threads of PyTorch of rank 0: 2 in run 1, 3 in run 2"),
        ({1: (2, 2)}, {1: (3, 3)}, "threads of PyTorch of rank 1: 2 in run 1, 3 in run 2"),
        (
            {0: (2, 2), 1: (2, 2)},
            {0: (3, 3), 1: (3, 3)},
            "threads of PyTorch of ranks 0, 1: 2 in run 1, 3 in run 2",
        ),
        # the end of one is not known: the beginnings are compared
        ({0: (2, 4)}, {0: (3,)}, "threads of PyTorch of rank 0: 2 in run 1, 3 in run 2"),
        # the job changed it
        ({0: (2, 2)}, {0: (2, 5)}, "threads of PyTorch of rank 0: 2 in run 1, 2, later 5 in run 2"),
        ({0: (2, 9)}, {0: (4, 1)}, "threads of PyTorch of rank 0: 2, later 9 in run 1, 4, later 1"),
    ],
)
def test_numbers_that_differ(recorded, tmp_path, a, b, said):  # noqa: F811
    verdict = judged(recorded, tmp_path, a, b)
    (text,) = told(verdict)
    assert verdict["outcome"] == "differ"
    assert text.startswith(said) and text.endswith(CANNOT)
    assert ("confirmed", text[:200]) in states(verdict)
    assert survivors(verdict) == []
    assert lies(verdict) == []


def test_each_pair_of_numbers_is_a_note(recorded, tmp_path):  # noqa: F811
    verdict = judged(recorded, tmp_path, {0: (1, 1), 1: (4, 4)}, {0: (4, 4), 1: (1, 1)})
    assert told(verdict) == [
        "threads of PyTorch of rank 0: 1 in run 1, 4 in run 2" + CANNOT,
        "threads of PyTorch of rank 1: 4 in run 1, 1 in run 2" + CANNOT,
    ]
    assert survivors(verdict) == []
    assert lies(verdict) == []


def test_of_one_process_no_rank_is_named(recorded, tmp_path):  # noqa: F811
    verdict = judged(recorded, tmp_path, {0: (2, 2)}, {0: (3, 3)}, job="values")
    assert told(verdict) == ["threads of PyTorch: 2 in run 1, 3 in run 2" + CANNOT]
    assert survivors(verdict) == []
    assert lies(verdict) == []


@pytest.mark.parametrize("threads", [2, 3])
def test_what_they_computed_is_no_origin(recorded, tmp_path, threads):  # noqa: F811
    """A gradient of a backward whose threads were others; nor is one whose verdict lies about it."""
    job = recorded("trainer")
    a, b = run(job.a, tmp_path / "a", {0: (2, 2)}), Copy(job.b, tmp_path / "b")
    (name,) = [n for n in b.traces() if Edited.read(b.folder / n).steps]
    trace = Edited.read(b.folder / name)
    for i, r in enumerate(trace.records):
        if r.step == 2 and KINDS[trace.series[r.series].kind] == "gradient":
            trace.records[i] = r._replace(digest=(r.digest[0] ^ 1, r.digest[1]))
    b.write(name, trace.sealed())
    verdict = compare(a, run(b.folder, tmp_path / "c", {0: (threads, threads)}))
    first = verdict["first"]
    assert (first["kind"], first["step"]) == ("gradient", 2)
    assert first["role"] == ("origin" if threads == 2 else "unknown")
    if threads == 2:
        assert survivors(verdict) == []
        return
    assert first["between"][1].endswith(", by 2 threads of PyTorch in run 1 and 3 in run 2")
    claim = next(c for c in verdict["claims"] if c["claim"] == "first")
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert recheck.Recheck(verdict["claims"], runs, verdict).one(claim)[0] == "confirmed"
    claim.update(claim="origin", role="origin")
    assert recheck.Recheck(verdict["claims"], runs, verdict).one(claim)[0] == "refuted"


def test_equal_runs_have_nothing_to_explain(recorded, tmp_path):  # noqa: F811
    verdict = judged(recorded, tmp_path, {0: (2, 2)}, {0: (3, 3)}, differs=False, job="values")
    assert verdict["outcome"] == "same"
    assert told(verdict) == ["threads of PyTorch: 2 in run 1, 3 in run 2"]
    assert lies(verdict) == []


@pytest.mark.parametrize(
    "a, b",
    [
        ({0: (2, 2), 1: (3, 3)}, {0: (2, 2), 1: (3, 3)}),  # ranks differ, the runs do not
        ({0: (2, 2)}, {}),  # one is not known
        ({}, {0: (2, 2)}),
        ({}, {}),
        ({0: (2, 2)}, {1: (3, 3)}),  # told by other ranks
        ({0: (2, 3)}, {0: (2,)}),  # whether the second changed it is not known
        ({0: ("2x", "x")}, {0: (3, 3)}),  # no number
        ({0: (0, 0)}, {0: (3, 3)}),
        ({0: ("-2", "-2")}, {0: (3, 3)}),
        ({0: ("99999999999999999999999", 1 << 40)}, {0: (3, 3)}),
    ],
)
def test_what_must_not_be_said(recorded, tmp_path, a, b):  # noqa: F811
    verdict = judged(recorded, tmp_path, a, b)
    assert verdict["outcome"] == "differ"
    assert told(verdict) == []
    # and whoever says it all the same is refuted
    for text in (
        "threads of PyTorch of rank 0: 2 in run 1, 3 in run 2",
        "threads of PyTorch of rank 1: 2 in run 1, 3 in run 2",
        "threads of PyTorch: 2 in run 1, 3 in run 2",
        "threads of PyTorch of rank 0: 2 in run 1, 2 in run 2",
        "threads of PyTorch of ranks 0 and 1 more: 2 in run 1, 3 in run 2",
        "threads of PyTorch: other numbers in run 1 and run 2 on 1 more rank",
    ):
        assert state(verdict, text + CANNOT * ("more rank" not in text)) == "refuted", text


def test_a_process_that_told_twice_under_one_number_tells_nothing(recorded, tmp_path):  # noqa: F811
    """exec keeps the process's number: two traces, and one file with the words of both."""
    r = recorded("values")
    a = run(r.a, tmp_path / "a", {0: (2, 2)})
    b = run(r.b, tmp_path / "b", {0: (3, 3)}, differs=True)
    for folder in (a, b):
        (trace,) = [p for p in folder.glob("ranks/*.twt") if p.stat().st_size > 1024]
        trace.with_name(trace.stem + "-2.twt").write_bytes(trace.read_bytes())
    assert told(compare(a, b)) == []


def test_many_pairs_of_numbers_are_counted(recorded, tmp_path):  # noqa: F811
    """Ten ranks with ten pairs of numbers: eight notes, and how many ranks more there are."""
    folders = []
    for key, original in (("a", recorded("ranks").a), ("b", recorded("ranks").b)):
        copy = Copy(original, tmp_path / key)
        names = copy.traces()
        first = next(n for n in names if Edited.read(copy.folder / n).rank == 0)
        for rank in range(10):
            trace = Edited.read(copy.folder / first)
            trace.rank, trace.world = rank, 10
            copy.write("ranks/%d.%d.twt" % (rank, 100000 + rank), trace.sealed())
            n = rank + (2 if key == "b" else 12)
            copy.write("worlds/%d.%d" % (rank, 100000 + rank), b"setting\tthreads %d\n" % n * 2)
        for name in names:
            (copy.folder / name).unlink()
        folders.append(copy.folder)
    verdict = compare(*folders)
    said = told(verdict)
    assert len(said) == 9
    assert said[0] == "threads of PyTorch of rank 0: 12 in run 1, 2 in run 2"
    assert said[8] == "threads of PyTorch: other numbers in run 1 and run 2 on 2 more ranks"
    assert {s for s, t in states(verdict) if "threads" in t} == {"confirmed"}
    assert [t for t in survivors(verdict) if "threads" in t] == []


def state(verdict, text):
    lie = json.loads(json.dumps(verdict))
    claim = {"claim": "note", "text": text}
    lie["notes"].append(text)
    lie["claims"].append(claim)
    runs = [recheck.Run(d) for d in lie["runs_dir"]]
    return recheck.Recheck(lie["claims"], runs, lie).one(claim)[0]


def lies(verdict):
    """Notes with another rank, other runs or a tail that does not belong there that are confirmed
    all the same.
    """
    out = []
    for text in told(verdict):
        numbers = re.search(r": (\d+.*) in run 1, (\d+.*?) in run 2", text)
        others = {
            text.replace(" of rank 0:", " of rank 1:"),
            text.replace(" of rank 1:", " of rank 0:"),
            text.replace(" of ranks 0, 1:", " of rank 0:"),
            text.replace(" of rank 0:", " of ranks 0, 1:"),
            text.replace(" of rank 1:", " of ranks 0, 1:"),
            re.sub(r" of ranks? [0-9, ]+:", ":", text),
            text.replace(numbers[0], ": %s in run 1, %s in run 2" % (numbers[2], numbers[1])),
            text.replace("in run 1, ", "in run 2, ").replace("in run 2;", "in run 1;"),
            text if verdict["outcome"] == "differ" else text + CANNOT,
        } - set(verdict["notes"])
        out += [t for t in others if state(verdict, t) == "confirmed"]
    return out
