# SPDX-License-Identifier: Apache-2.0
"""The Python agent over the real library: what it writes is what the double keeps; digests by
several threads are those of one.
"""

import os
import subprocess
import sys

import pytest
from native import LIBRARY, ROOT, Run
from torch_observed import JOBS, PYTHON, observed

pytestmark = [
    pytest.mark.usefixtures("python"),
    pytest.mark.skipif(not os.path.exists(LIBRARY), reason=f"not built: {LIBRARY}"),
]

SITE = os.path.join(ROOT, "python", "twinrun", "_site")


def watched(folder, job, *args, level="tensors", text=None):
    """Runs a job with our own sitecustomize and the library; returns (how it ended, its traces by
    role).
    """
    run = Run(
        folder,
        TWINRUN_LEVEL=level,
        PYTHONPATH=SITE,
        TWINRUN_PYTHON_DIR=os.path.join(ROOT, "python"),
        TWINRUN_SITE_DIR=SITE,
        OMP_NUM_THREADS=1,
        PYTHONDONTWRITEBYTECODE=1,
    )
    script = os.path.join(JOBS, job + ".py")
    if text is not None:
        script = os.path.join(run.folder, job + ".py")
        with open(script, "w") as f:
            f.write(text)
    done = run.start(PYTHON, script, *args, preload=True, timeout=300, cwd=run.folder)
    return done, run.traces()


@pytest.mark.parametrize(
    "job, level",
    [("train", "tensors"), ("train", "ops"), ("scaler", "tensors"), ("lbfgs", "modules")],
)
def test_the_trace_has_what_the_double_keeps(job, level, tmp_path):
    done, traces = watched(tmp_path, job, level=level)
    double = observed(job, level)
    assert (
        done.returncode == 0 and done.stdout.decode() == double.done.stdout and done.stderr == b""
    )
    rows = traces["main"].records
    keys = ("step", "phase", "kind", "name", "scope")
    assert [tuple(r[k] for k in keys) for r in rows] == [
        tuple(r[k] for k in keys) for r in double.records
    ]
    # The two digest the same bytes, each in its own way: what is equal there is equal here, and
    # what differs there, among tensors of one type and shape, differs here (raw sums leave out type
    # and shape).
    there = [((r["dtype"], tuple(r["shape"])), r["digest"]) for r in double.records]
    pairs = {(layout, digest, row["digest"]) for (layout, digest), row in zip(there, rows)}
    assert len(pairs) == len({p[:2] for p in pairs}) == len({(p[0], p[2]) for p in pairs}) > 20


def test_loader_workers_write_traces_of_their_own(tmp_path):
    done, traces = watched(tmp_path, "loaders", "fork")
    assert done.returncode == 0, done
    assert set(traces) == {
        "main",
        "loader worker 0",
        "loader worker 1",
        "loader worker 0 (process 3)",
        "loader worker 1 (process 4)",
    }
    assert {len(t.steps) for role, t in traces.items() if role != "main"} == {2}


def test_ranks_made_by_spawn_write_traces_of_their_own(tmp_path):
    done, traces = watched(tmp_path, "ranks")
    assert done.returncode == 0, done
    assert sorted(t.header["rank"] for t in traces.values()) == [0, 1] and all(
        t.header["world"] == 2 for t in traces.values()
    )


def test_numpy_alone_is_said_to_be_unseen(tmp_path):
    done, traces = watched(
        tmp_path, "only_numpy", text="import numpy\nprint(numpy.arange(3).sum())\n"
    )
    assert done.stdout == b"3\n"
    assert ("unseen", "numpy arrays (no torch operation was seen)") in traces["main"].notes


def test_twinrun_is_importable_and_records_arrays(tmp_path):
    done, traces = watched(
        tmp_path,
        "shown",
        text="""
import array, sys
import numpy, twinrun
for step in range(2):
    with twinrun.scope("outer"), twinrun.scope("inner"):
        twinrun.record("batch:x", numpy.arange(6.0).reshape(2, 3).T)
    twinrun.record("y", array.array("i", [1, 2, 3]))
    twinrun.record("bytes", b"abc")
    twinrun.record("odd", object())
    twinrun.record("big endian", numpy.arange(3, dtype=">f4"))
    twinrun.step()
print("torch" in sys.modules)
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"False\n", b""), done
    rows = [
        (r["step"], r["phase"], r["kind"], r["scope"], r["name"]) for r in traces["main"].records
    ]
    want = [
        ("data", "batch", "outer/inner", "x"),
        ("output", "value", "", "y"),
        ("output", "value", "", "bytes"),
        ("output", "value", "", "odd"),
        ("output", "value", "", "big endian"),
    ]
    assert rows == [(step, *row) for step in range(2) for row in want]
    assert [r["name"] for r in traces["main"].records if r["flags"] & 64] == [
        "odd",
        "big endian",
    ] * 2


def test_without_twinrun_the_public_calls_do_nothing():
    text = (
        "import sys; sys.path.insert(0, %r)\n"
        "import twinrun\n"
        "with twinrun.scope('a'):\n    twinrun.record('x', object())\n"
        "twinrun.step()\n"
        "print('_twinrun_agent' in sys.modules, 'ctypes' in sys.modules)\n"
        % os.path.join(ROOT, "python")
    )
    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        env={k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_")},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False False\n", "")


def test_digests_by_several_threads_are_those_of_one(tmp_path):
    """Long arrays are cut into pieces for the helper threads. The oracle digests them whole, on one
    thread.
    """
    done, traces = watched(
        tmp_path,
        "long",
        text="""
import ctypes, os, sys, numpy, twinrun
twinrun.record("start", b"")
native = sys.modules["_twinrun_agent.native"]
lib = native.library()
sizes = [262145, 1 << 20, 3, 700001, 131073, 5] * 15
rows = [numpy.random.default_rng(i).standard_normal(n).astype("f4") for i, n in enumerate(sizes)]
items = native.Items(len(rows))
for i, r in enumerate(rows):
    shape = (ctypes.c_int64 * 1)(r.size)
    native.pack_item(items.buffer, 64 * i, r.ctypes.data, 0, 0, r.size, 0,
                     lib.series(7, 4, b"w%d" % i, b"", b"", b"", b""), lib.layout(10, 1, shape), 0 if i % 4 else 3, 10, 1, 0)
for _ in range(3):
    assert lib.records_long(items.address, len(rows), None, 0) == len(rows)
if os.fork() == 0:
    lib.records_long(items.address, len(rows), None, 0)
    sys.exit(0)
os.wait()
for i, r in enumerate(rows):
    print(i, lib.quick_digest(r.ctypes.data, r.nbytes))
""",
    )
    assert done.returncode == 0, done
    want = {int(a): int(b) for a, b in (line.split() for line in done.stdout.decode().splitlines())}
    assert set(traces) == {"main", "child 1"}
    for trace, times in ((traces["main"], 3), (traces["child 1"], 1)):
        rows = [r for r in trace.records if r["name"].startswith("w")]
        assert [r["name"] for r in rows] == [f"w{i}" for i in range(90)] * times
        for r in rows:
            a, b = (int(part, 16) for part in (r["digest"][:16], r["digest"][16:]))
            assert a ^ (b << 32 | b >> 32) & (1 << 64) - 1 == want[int(r["name"][1:])]
