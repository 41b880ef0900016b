# SPDX-License-Identifier: Apache-2.0
"""`twinrun ops`: a known race is found, clean operations are not blamed, and one that dies costs
its row only.
"""

import json
import shutil
import sys

import pytest
from conftest import FULL, ROOT

OPS = ROOT / "python" / "twinrun" / "_ops"


@pytest.fixture
def ops(twinrun, python):
    """ops(*options) -> {operation: row} of the CPU, and the whole object."""

    def call(*options, timeout=600):
        done = twinrun(
            "ops", "--python", python, "--device", "cpu", "--json", *options, timeout=timeout
        )
        assert done.rc == 0, done
        (device,) = done.json["devices"]
        return {row["op"]: row for row in device["ops"]}, done.json

    return call


def test_a_race_is_found_and_a_clean_operation_is_not_blamed(ops):
    rows, whole = ops(
        "--op",
        "getitem*",
        "--op",
        "relu",
        "--op",
        "max_unpool2d",
        "--runs",
        "60",
        "--threads",
        "1,2",
    )
    assert len(rows) == 3 and whole["schema"] == "twinrun.ops/1"
    assert whole["bound"]["p_differ_upper"] == pytest.approx(1 - 0.05 ** (1 / 59))
    race, clean, refused = rows["getitem backward"], rows["relu"], rows["max_unpool2d"]
    one, two = race["threads"]
    assert (
        one["differ"] == 0 and two["differ"] > 0 and race["verdict"] == "unsafe" and race["instead"]
    )
    assert (
        race["flag"]["effect"] == "repeats"
        and race["flag"]["cost_low"] <= race["flag"]["cost_ratio"] <= race["flag"]["cost_high"]
    )
    assert (
        clean["verdict"] != "unsafe"
        and not clean["threads_change"]
        and [t["differ"] for t in clean["threads"]] == [0, 0]
    )
    assert (
        refused["flag"]["effect"] == "raises"
        and "does not have a deterministic implementation" in refused["flag"]["message"]
    )


@pytest.mark.skipif(not FULL, reason="the whole catalogue: TWINRUN_FULL=1")
def test_the_whole_catalogue(ops):
    rows, _ = ops("--runs", "20", "--threads", "1,2", timeout=900)
    assert len(rows) >= 80
    assert not [r for r in rows.values() if r["verdict"] == "not-measured"]
    racing = {"index_put accumulate", "put accumulate", "getitem backward", "take backward"}
    unsafe = {name for name, r in rows.items() if r["verdict"] == "unsafe"}
    assert (
        len(racing & unsafe) >= 2
    ), "these add in the order of their threads; on a busy machine one may look steady"
    assert not {
        name for name in unsafe if rows[name]["threads"][0]["differ"]
    }, "nothing races on one thread"
    assert (
        not {
            "relu",
            "sum over rows",
            "unique",
            "topk with ties",
            "max_pool2d backward",
            "scatter_add",
        }
        & unsafe
    )
    assert rows["sum"]["threads_change"]


STUB = """
__version__ = "0"
backends = None
class Generator:
    def manual_seed(self, seed):
        return self
def set_num_threads(count):
    pass
def use_deterministic_algorithms(on):
    pass
"""
ROWS = """
@row("good")
def _(x):
    return lambda: ()

@row("crash")
def _(x):
    import os
    return lambda: os.abort()

@row("stands still")
def _(x):
    import time
    return lambda: time.sleep(60)

@row("unheard of")
def _(x):
    return lambda: x.torch.no_such_operation()

@row("good, too")
def _(x):
    return lambda: ()
"""


def test_a_crash_and_a_halt_cost_their_rows_only(run, tmp_path):
    folder = tmp_path / "ops"
    shutil.copytree(OPS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "torch.py").write_text(STUB)
    text = (folder / "catalogue.py").read_text()
    (folder / "catalogue.py").write_text(text[: text.index("SORT_FIRST")] + ROWS)
    plan = {"device": "cpu", "threads": [1], "runs": 4, "patterns": [], "limit": 2}
    done = run([sys.executable, folder, json.dumps(plan)])
    assert done.rc == 0, done
    rows = {
        r["row"]["name"]: r["row"] for r in map(json.loads, done.out.splitlines()) if "row" in r
    }
    assert list(rows) == ["good", "crash", "stands still", "unheard of", "good, too"]
    assert (
        "signal 6" in rows["crash"]["error"]
        and "no result within 2 s" in rows["stands still"]["error"]
    )
    assert "no_such_operation" in rows["unheard of"]["error"]
    assert (
        rows["good"]["threads"]
        == rows["good, too"]["threads"]
        == [{"runs": 4, "differ": 0, "classes": 1, "between_processes_only": False, "threads": 1}]
    )
