# SPDX-License-Identifier: Apache-2.0
"""Notes of ranks that should hold equal weights are rechecked: true ones are confirmed, and none
whose numbers, name or ranks were altered.
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
from twinrun.trace import KINDS, PHASES  # noqa: E402

WEIGHT = KINDS.index("weight")
NOTE = "DistributedDataParallel 0,1,2 0 1 1 Net\nw"


def weights(trace):
    return [i for i, r in enumerate(trace.records) if trace.series[r.series].kind == WEIGHT]


def replicas(original, folder, changes, note=NOTE):
    """A run folder whose ranks 0, 1, 2 hold equal weights of a root "Net", then changed:
    {rank: what is done to its trace}; None: it is taken away.
    """
    copy = Copy(original, folder)
    names = copy.traces()
    first = next(n for n in names if Edited.read(copy.folder / n).rank == 0)
    for name in names:
        if name != first:
            (copy.folder / name).unlink()
    for rank in range(3):
        trace = Edited.read(copy.folder / first)
        trace.rank = rank
        at = trace.string("Net")
        trace.series = {
            i: s._replace(phase=PHASES.index("optimizer"), scope=at) if s.kind == WEIGHT else s
            for i, s in trace.series.items()
        }
        trace.renumber()
        trace.notes.append((b"replica", note.encode()))
        change = changes.get(rank, lambda trace: None)
        if change:
            change(trace)
            copy.write("ranks/%d.%d.twt" % (rank, 1000 + rank), trace.sealed())
    copy.write(first, b"")
    (copy.folder / first).unlink()
    return copy.folder


def differs(step, last=True):
    """The weight differs in this step, and in those behind it."""

    def change(trace):
        for i in weights(trace):
            r = trace.records[i]
            if r.step == step or (last and r.step > step):
                trace.records[i] = r._replace(digest=(r.digest[0] ^ 1, r.digest[1]))

    return change


def drops(step):
    def change(trace):
        trace.records = [
            r for r in trace.records if r.step != step or trace.series[r.series].kind != WEIGHT
        ]

    return change


def notes(key, text):
    return lambda trace: trace.notes.append((key, text))


def lies_in(trace):
    trace.notes = [(k, v.replace(b" 0 1 1 ", b" 1 1 1 ")) for k, v in trace.notes]


DRIFT = "ranks 0, 1, 2 should hold equal weights (DistributedDataParallel) and do not: w is first "
UNKNOWN = "whether ranks 0, 1, 2 hold equal weights (DistributedDataParallel) is not known"
CASES = {
    "one": ({1: differs(2)}, [DRIFT + "seen to differ after step 2, where rank 1 differs from"]),
    "two": ({1: differs(1), 2: differs(1)}, [DRIFT + "seen to differ after step 1, where rank 0"]),
    "once": ({2: differs(3, False)}, [DRIFT + "seen to differ after step 3, where rank 2 differs"]),
    "missing": ({2: None}, [UNKNOWN + ": rank 2 left no trace that says so"]),
    "other note": ({1: lies_in}, [UNKNOWN + ": rank 1 says it of other weights"]),
    "no_sync": (
        {1: notes(b"replica.local", b"2 0,1,2 Net"), 2: differs(1)},
        [DRIFT + "seen to differ after step 1", UNKNOWN + " from step 2 on: rank 1 stepped on"],
    ),
    "end": (
        {1: notes(b"replica.end", b"3 0,1,2 Net"), 2: differs(1)},
        [DRIFT + "seen to differ after step 1"],
    ),
    "other weights": ({2: drops(3)}, [UNKNOWN + " from step 3 on: rank 2 recorded other weights"]),
}


@pytest.mark.parametrize("name", CASES)
def test_notes_of_replicas(recorded, tmp_path, name):  # noqa: F811
    changes, said = CASES[name]
    r = recorded("ranks")
    a, b = (replicas(getattr(r, k), tmp_path / k, changes) for k in "ab")
    verdict = compare(a, b)
    for text in said:
        for k in (1, 2):
            start = "run %d: %s" % (k, text)
            assert [s for s, t in states(verdict) if t.startswith(start[:200])] == ["confirmed"], (
                verdict["notes"],
                states(verdict),
            )
    assert [s for s in survivors(verdict) if "equal weights" in s] == []
    assert lies(verdict) == []


@pytest.mark.parametrize(
    "word, keeper",
    [
        ("DTensor/dp", "DTensor, replicated over mesh dimension dp"),
        ("DTensor/dp+tp", "DTensor, replicated over mesh dimensions dp+tp"),
    ],
)
def test_notes_of_a_mesh(recorded, tmp_path, word, keeper):  # noqa: F811
    r, note = recorded("ranks"), NOTE.replace("DistributedDataParallel", word)
    changes = {1: differs(2)}
    a, b = (replicas(getattr(r, k), tmp_path / k, changes, note) for k in "ab")
    verdict = compare(a, b)
    start = "run 2: " + DRIFT.replace("DistributedDataParallel", keeper)
    assert [s for s, t in states(verdict) if t.startswith(start)] == ["confirmed"], verdict["notes"]
    assert lies(verdict) == []


def lies(verdict):
    """Notes of replicas with another name, rank or reason that are confirmed all the same."""
    runs, out = [recheck.Run(d) for d in verdict["runs_dir"]], []
    for text in [t for t in verdict["notes"] if "equal weights" in t]:
        for old, new in (
            (": w is first", ": v is first"),
            ("0, 1, 2", "0, 1"),
            ("(Distributed", "(Fully"),
            ("dimension dp", "dimension tp"),
            ("dimensions dp", "dimensions pp"),
            ("replicated over", "cut over"),
            ("after step", "at the end"),
            (", which agree", ""),
            ("rank 1 ", "rank 0 "),
            ("rank 2 ", "rank 0 "),
            ("recorded other weights", "lost records"),
        ):
            other = text.replace(old, new)
            if other == text:
                continue
            lie = json.loads(json.dumps(verdict).replace(json.dumps(text), json.dumps(other)))
            judge = recheck.Recheck(lie["claims"], runs, lie)
            claim = next(c for c in lie["claims"] if c.get("text") == other)
            if judge.one(claim)[0] == "confirmed":
                out.append(other)
    return out


def test_ranks_that_agree_are_never_told_to_differ(recorded, tmp_path):  # noqa: F811
    r = recorded("ranks")
    a, b = (replicas(getattr(r, k), tmp_path / k, {}) for k in "ab")
    verdict = compare(a, b)
    assert [t for t in verdict["notes"] if "equal weights" in t] == []
    text = "run 1: %sseen to differ after step 2; 1 of 1 weights differ, in 3 of 5 steps" % DRIFT
    verdict["notes"].append(text)
    claim = {"claim": "note", "text": text}
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert recheck.Recheck([claim], runs, verdict).one(claim)[0] == "refuted"
    # and of ranks of which nobody noted that they should
    a, b = (replicas(getattr(r, k), tmp_path / (k + "2"), {1: differs(2)}, note="x") for k in "ab")
    verdict = compare(a, b)
    assert [t for t in verdict["notes"] if "equal weights" in t] == []
    verdict["notes"].append(text)
    runs = [recheck.Run(d) for d in verdict["runs_dir"]]
    assert recheck.Recheck([claim], runs, verdict).one(claim)[0] == "refuted"


def test_damage(recorded, tmp_path):  # noqa: F811
    """A damaged rank: what is not known stands in the verdict, and what is confirmed is below it."""
    r = recorded("ranks")
    folders = [
        replicas(getattr(r, k), tmp_path / k, {1: differs(1), 2: notes(b"x", b"y")}) for k in "ab"
    ]
    for folder in folders:
        path = next(folder.glob("ranks/2.*.twt"))
        data = bytearray(path.read_bytes())
        at = len(data) * 3 // 4
        data[at] ^= 1
        path.write_bytes(data)
    verdict = compare(*folders)
    said = [(s, t) for s, t in states(verdict) if re.search("equal weights", t)]
    assert said
    assert {s for s, _ in said} == {"confirmed"}, said
