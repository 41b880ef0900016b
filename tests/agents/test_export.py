# SPDX-License-Identifier: Apache-2.0
"""twinrun export: the tables, column by column, against `show --json` and the second reader of
traces; read by a reader of our own (parquet_by_spec), and by pyarrow, which most tools read with.
"""

import json
import math
import random
import shutil
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from parquet_by_spec import read, rows

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "trace"
sys.path.insert(0, str(ROOT / "python"))
from twinrun import trace  # noqa: E402

STATISTICS = ("count", "nan", "pos_inf", "neg_inf", "zeros", "min", "max", "absmax", "sum", "sumsq")
AS_SHOWN = ("step", "seq", "occurrence", "phase", "kind", "name", "dtype", "digest", "rank", "pid")
# Names that no text may hold as they are, one of 3,000 bytes, and numbers that have no order.
HOSTILE = """
import ctypes
lib = ctypes.CDLL(None)
lib.twin_record_at.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_int, ctypes.c_uint32] + [
    ctypes.c_void_p] * 3 + [ctypes.c_uint64]
inf, nan = float("inf"), float("nan")
VALUES = [[1.0, nan], [inf, -inf, 2.5], [nan], [], [-0.0, 0.0], [7.0]]
NAMES = [b"x\\xff\\x1b[2J\\n", b"long" * 750, "gewicht \\u00e4\\u6f22".encode(), b"\\\\x0a", b"PAR1"]
PLACES = [b"a:7 in b\\n.py:12", b"no line:12345678901", b"x:y:3"]
lib.twin_scope_push(b"outer")
lib.twin_thread_role(b"worker 0")
for step in range(3):
    for name in NAMES:
        for values in VALUES:
            array = (ctypes.c_float * len(values))(*values)
            shape = (ctypes.c_int64 * 1)(len(values))
            lib.twin_record_at(PLACES[step], b"f", name, 10, 1, shape, None, array, 0)
    lib.twin_step()
lib.twin_close()
"""
MANY = """
value = ctypes.byref(ctypes.c_float(1))
for count in (66000, 3, 66000):
    for _ in range(count):
        lib.twin_record_at(b"a:1", b"f", b"x", 10, 0, None, None, value, 0)
    lib.twin_step()
lib.twin_close()
"""


@pytest.fixture
def export(twinrun, tmp_path):
    """export(runs...) -> (Result, rows of records, rows of steps); pyarrow says the same."""

    def call(*runs, folder=tmp_path / "tables"):
        done = twinrun("export", *runs, "--parquet", folder, "--force")
        assert sorted(p.name for p in folder.iterdir()) == ["records.parquet", "steps.parquet"]
        tables = []
        for name in ("records", "steps"):
            path = folder / f"{name}.parquet"
            tables.append(rows(path))
            others = pyarrow.parquet.read_table(path).to_pylist()
            assert repr(tables[-1]) == repr(others)  # NaN equals NaN there
            assert read(path)[0] == f"twinrun.{name}/1"
        return done, *tables

    return call


@pytest.fixture
def job(build):
    return build / "tests" / "cli" / "job"


def as_shown(v):
    """`show --json` has nine digits of a number, and null for what is not finite."""
    if isinstance(v, float):
        return float(f"{v:.9g}") if math.isfinite(v) else None
    return v


def hold_against_show(found, shown):
    """Each row against the record with its place. Texts that are null here are "" there."""
    by_place = {(r["rank"], r["pid"], r["step"], r["seq"]): r for r in shown}
    assert len(found) == len(shown) == len(by_place)
    for row in found:
        r = by_place[row["rank"], row["pid"], row["step"], row["seq"]]
        assert {k: row[k] for k in AS_SHOWN} == {k: r[k] for k in AS_SHOWN}
        assert [row[k] or "" for k in ("scope", "op", "site", "thread_role")] == [
            r[k] for k in ("scope", "op", "site", "role")
        ]
        assert json.loads(row["shape"]) == r["shape"]
        assert row["elements"] == math.prod(r["shape"])
        for k in STATISTICS:
            assert as_shown(row[k]) == (r["stats"] or {}).get(k), k
        if r["stats"]:
            finite = row["count"] - row["nan"] - row["pos_inf"] - row["neg_inf"]
            assert row["mean"] == (row["sum"] / finite if finite else None)
            assert row["norm"] == math.sqrt(row["sumsq"])
        else:
            assert row["mean"] is row["norm"] is None


def test_several_ranks_and_runs(export, twinrun, job):
    """The same rows as `show` lists, in the order that is promised, and no others."""
    both = 'WORLD_SIZE=2 RANK=0 "$0" --steps 3 & WORLD_SIZE=2 RANK=1 "$0" --steps 3 & wait'
    for _ in range(2):
        assert twinrun("record", "-q", "--lossless", "--", "sh", "-c", both, job).rc == 0
    done, records, steps = export("last~1", "last")
    assert done.rc == 0 and not done.err and "52 records" in done.out, done
    ids = []
    for run in ("last~1", "last"):
        shown = twinrun("show", run, "--record", "*", "--json").json
        ids.append(shown["id"])
        hold_against_show([r for r in records if r["run"] == ids[-1]], shown["records"])
    place = [(r["step"], ids.index(r["run"]), r["rank"], r["pid"], r["seq"]) for r in records]
    assert place == sorted(place) and {r["rank"] for r in records} == {0, 1}
    assert len(steps) == 2 * 2 * 3
    equal = {(s["step"], s["value_digest"], s["order_digest"], s["value_prefix"]) for s in steps}
    assert len(equal) == 3, "deterministic: each step is equal in both runs and ranks"
    first = records[0]
    text = (ROOT / "tests" / "cli" / "job.c").read_text().splitlines()
    assert first["file"].endswith("job.c") and "init" in text[first["line"] - 1], first


def test_hostile_names_and_numbers(export, twinrun, script):
    job = script("job.py", HOSTILE)
    assert twinrun("record", "-q", "--lossless", "--", sys.executable, job).rc == 0
    done, records, _ = export("last")
    assert done.rc == 0, done
    hold_against_show(records, twinrun("show", "last", "--record", "*", "--json").json["records"])
    names = {r["name"] for r in records}
    assert {"x\\xff\\x1b[2J\\x0a", "long" * 750, "gewicht \u00e4\u6f22", "\\x5cx0a"} <= names
    assert {(r["file"], r["line"]) for r in records} == {("a", 7), (None, None), ("x:y", 3)}
    assert {(r["scope"], r["thread_role"]) for r in records} == {("outer", "worker 0")}
    alone = [r for r in records if r["count"] == r["nan"] == 1]
    assert alone and all(math.isnan(r["min"]) and r["mean"] is None for r in alone)
    assert any(r["max"] == math.inf and r["min"] == -math.inf for r in records)


def recorded_run(twinrun, home, job):
    """A run folder, and the one trace in it."""
    assert twinrun("record", "-q", "--lossless", "--", job, "--steps", "1").rc == 0
    (path,) = home.glob("runs/*/ranks/*.twt")
    return path


def by_second_reader(t):
    """What the rows should hold of the records, as far as the second reader has it."""
    found = []
    for r in sorted(t.records(), key=lambda r: (r.step, r.seq)):
        s = r.stats or (None,) * 9
        whole = r.whole if r.flags & trace.PART else None
        offset = r.global_offset if r.flags & trace.OFFSET else None
        key = t.key(r)
        found.append(
            (r.step, r.seq, r.thread, r.time_ns, *key[:2], key[5], offset, whole)
            + (*s, bool(r.flags & trace.RECOMPUTED))
        )
    return found


def as_second_reader(row):
    place = [row[k] for k in ("step", "seq", "thread", "time_ns", "phase", "kind", "occurrence")]
    more = [
        row[k]
        for k in ("global_offset", "whole_elements", *STATISTICS, "recomputed")
        if k != "absmax"
    ]
    return (*place, *more)


@pytest.mark.parametrize("name", ["basic", "empty", "gaps", "torn"])
def test_golden_traces(export, twinrun, home, job, name):
    path = recorded_run(twinrun, home, job)
    shutil.copy(GOLDEN / f"v1-{name}.twt", path)
    t = trace.Trace(path.read_bytes())
    done, records, steps = export("last")
    assert done.rc == 0, done
    assert ("no whole block" in done.err) == (name == "torn"), done
    assert ("dropped" in done.err) == (t.info.dropped > 0), done
    expected = by_second_reader(t)
    assert repr([as_second_reader(r) for r in records]) == repr(expected)
    assert [(s["step"], s["records"], s["dropped"]) for s in steps] == [
        (s.step, s.records, s.dropped) for s in t.steps()
    ]
    for row, s in zip(steps, t.steps()):
        assert row["value_prefix"] == f"{s.prefix:032x}"
        assert row["order_prefix"] == f"{s.order_prefix:032x}"
        assert row["order_digest"] == f"{s.order:016x}"


def test_broken_traces(export, twinrun, home, job):
    """Bits are turned and ends cut off: what the second reader still finds is in the tables, and an
    exit code of 2 goes with a sentence.
    """
    path, rng = recorded_run(twinrun, home, job), random.Random(16)
    basic, codes = (GOLDEN / "v1-basic.twt").read_bytes(), []
    for _ in range(40):
        data = bytearray(basic)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            del data[rng.randrange(600, len(data)) :]
        path.write_bytes(data)
        done, records, _ = export("last")
        codes.append(done.rc)
        assert done.rc in (0, 2) and bool(done.err) >= (done.rc == 2), done
        try:
            expected = sorted((r.step, r.seq) for r in trace.Trace(bytes(data)).records())
        except trace.TraceError:
            expected = []
        assert [(r["step"], r["seq"]) for r in records] == expected
    assert {0, 2} == set(codes)


def test_steps_of_a_large_table_lie_apart(export, twinrun, job):
    """Several row groups: their ranges of steps meet at most at one step, so a query passes over the
    others.
    """
    assert twinrun("record", "-q", "--lossless", "--", job, "--steps", "40000").rc == 0
    done, records, steps = export("last")
    assert done.rc == 0 and len(records) == 160001 and len(steps) == 40000, done
    assert [r["step"] for r in records] == sorted(r["step"] for r in records)
    parquet = pyarrow.parquet.ParquetFile(Path(str(done.argv[-2])) / "records.parquet")
    step = parquet.schema_arrow.get_field_index("step")
    ranges = [
        parquet.metadata.row_group(g).column(step).statistics
        for g in range(parquet.metadata.num_row_groups)
    ]
    assert len(ranges) == 2 and ranges[0].max <= ranges[1].min


def test_a_step_larger_than_memory_is_given(export, twinrun, script):
    """Two steps that are streamed, and a small one in between."""
    many = script("many.py", HOSTILE.split("inf, nan")[0] + MANY)
    assert twinrun("record", "-q", "--lossless", "--", sys.executable, many).rc == 0
    done, records, steps = export("last")
    assert done.rc == 0 and [s["records"] for s in steps] == [66000, 3, 66000], done
    assert [(r["step"], r["seq"]) for r in records] == [
        (step, n) for step, count in enumerate((66000, 3, 66000)) for n in range(1, count + 1)
    ]


def test_nothing_is_replaced_unasked(twinrun, job, tmp_path):
    assert twinrun("record", "-q", "--lossless", "--", job, "--steps", "1").rc == 0
    folder = tmp_path / "a" / "b"
    first = twinrun("export", "last", "--parquet", folder)
    assert first.rc == 0, first
    (folder / "records.parquet").unlink()
    (folder / "steps.parquet").write_text("mine")
    again = twinrun("export", "last", "--parquet", folder)
    assert again.rc == 2 and "steps.parquet is there already" in again.err, again
    assert [p.name for p in folder.iterdir()] == ["steps.parquet"]
    assert (folder / "steps.parquet").read_text() == "mine"
    assert twinrun("export", "last", "--parquet", folder, "--force").rc == 0
    assert len(rows(folder / "steps.parquet")) == 1
    assert twinrun("export", "last").rc == 2
    assert twinrun("export", "nothing-like-it", "--parquet", folder).rc == 2
