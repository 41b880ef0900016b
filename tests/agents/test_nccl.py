# SPDX-License-Identifier: Apache-2.0
"""What NCCL chose for each collective: the agent as NCCL's profiler plugin, told by a double of
NCCL's side (nccl_double.c), and who is asked to load it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from native import BUILD, LIBRARY, clean_environment

sys.path.insert(0, str(ROOT / "python"))
from twinrun import recheck  # noqa: E402
from twinrun.trace import Trace  # noqa: E402

DOUBLE = os.path.join(BUILD, "tests", "agents", "nccl_double")
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
CALLS = (
    "AllReduce:65536:ncclFloat32:RING:LL128:4",
    "AllReduce:1024:ncclBfloat16:TREE:LL:2",
    "ReduceScatter:77:ncclUint8:NVLS:SIMPLE:16@2",
)


def environment(tmp_path, **more):
    env = clean_environment()
    env.pop("NCCL_PROFILER_PLUGIN", None)
    env.pop("NCCL_CONF_FILE", None)
    return {**env, "TWINRUN_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), **more}


def record(tmp_path, *words, expected=0, **more):
    """The folder of a recorded run of the double, and what it printed."""
    env = environment(tmp_path, **{"TWINRUN_NCCL": "on", **more})
    runs = tmp_path / "home" / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    done = subprocess.run(
        [TWINRUN, "record", "-q", "--", DOUBLE, *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert done.returncode == expected, done.stderr
    (run,) = set(runs.iterdir()) - before
    return run, done.stdout


def calls_of(run):
    """[(scope, function, sequence, step, datatype, shape, choice)] of the only process."""
    (path,) = (run / "nccl").glob("*.twt")
    trace = Trace.open(path)
    assert not trace.verify() and trace.info.closed
    rows = []
    for r in trace.records():
        s, y = trace.series[r.series], trace.layouts[r.layout]
        words = [trace.string(i) for i in (s.scope, s.name, s.site, s.op)]
        rows.append((*words[:2], *r.digest, words[2], list(y.shape), words[3]))
    return rows, {k.decode(): v.decode() for k, v in trace.notes}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_each_version_of_the_interface(tmp_path, version):
    run, said = record(
        tmp_path, "--version", str(version), "--name", "dp", "--rank", "2", "--steps", "3", *CALLS
    )
    assert said == "ok 5\n"
    rows, notes = calls_of(run)
    scope = 'communicator 1 "dp", rank 2' + (" of 4" if version >= 4 else "")
    first = ("ncclFloat32", [65536], "algorithm RING, protocol LL128, channels 4")
    second = ("ncclBfloat16", [1024], "algorithm TREE, protocol LL, channels 2")
    expected = [
        (scope, "AllReduce", 2 * step + k, step, *which)
        for step in range(3)
        for k, which in enumerate((first, second))
    ]
    third = ("ncclUint8", [77], "algorithm NVLS, protocol SIMPLE, channels 16")
    assert rows == expected + [(scope, "ReduceScatter", 0, 2, *third)]
    assert notes == {"nccl.profiler": "v%d" % version}


@pytest.mark.parametrize("version", [1, 5])
def test_events_that_no_nccl_sends(tmp_path, version):
    """The job goes on, what was no call of a known communicator is counted."""
    words = ("--version", str(version), "--hostile", "--child", CALLS[0])
    run, said = record(tmp_path, *words)
    assert said == "ok 5\n"
    rows, notes = calls_of(run)
    assert [r[2] for r in rows if r[1] == "AllReduce"] == [0, 1, 2, 3]
    assert notes["nccl.lost"] == "4"
    for row in rows:
        assert all(word.isprintable() for word in (row[0], row[1], row[4], row[6]))


def test_communicators_of_several_threads(tmp_path):
    words = ("--threads", "4", "--communicators", "3", "--steps", "50", *CALLS[:2])
    run, said = record(tmp_path, *words)
    rows, notes = calls_of(run)
    scopes = {r[0] for r in rows}
    assert scopes == {"communicator %d, rank 0 of 4" % n for n in range(1, 13)}
    for scope in scopes:
        assert [r[2] for r in rows if r[0] == scope] == list(range(100))
    assert "nccl.lost" not in notes


def noted(run):
    return [n for n in json.loads((run / "run.json").read_text())["notes"] if "NCCL" in n]


def test_who_is_asked(tmp_path):
    """Not who does not ask; not who has a plugin: by variable, in a file, or in a folder."""
    for word in ("off", ""):
        run, said = record(tmp_path, CALLS[0], TWINRUN_NCCL=word)
        assert said == "ok 0\n" and not (run / "nccl").exists() and not noted(run)

    own = record(tmp_path, CALLS[0], NCCL_PROFILER_PLUGIN="libmine.so")
    conf = tmp_path / "nccl.conf"
    conf.write_text("# NCCL_PROFILER_PLUGIN=x\n  NCCL_PROFILER_PLUGIN = mine\n")
    file = record(tmp_path, CALLS[0], NCCL_CONF_FILE=str(conf))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libnccl-profiler.so").write_bytes(b"")
    library = record(tmp_path, CALLS[0], LD_LIBRARY_PATH="/nowhere:%s" % (tmp_path / "lib"))
    for (run, said), what in (
        (own, "NCCL_PROFILER_PLUGIN is set to libmine.so already"),
        (file, "%s sets NCCL_PROFILER_PLUGIN already" % conf),
        (library, "%s/lib/libnccl-profiler.so is there already" % tmp_path),
    ):
        assert said == "ok 0\n" and not (run / "nccl").exists()
        (note,) = noted(run)
        assert what in note and "loads one profiler plugin only" in note

    conf.write_text("# NCCL_PROFILER_PLUGIN=x\nNCCL_PROFILER_PLUGINS=y\nNCCL_ALGO=Ring")
    run, said = record(tmp_path, CALLS[0], NCCL_CONF_FILE=str(conf))
    assert said == "ok 5\n" and not noted(run)


def test_without_a_run_the_plugin_is_idle(tmp_path):
    """Named by hand, where nothing is recorded: it wants no events."""
    env = environment(tmp_path, NCCL_PROFILER_PLUGIN=LIBRARY)
    done = subprocess.run([DOUBLE, CALLS[0]], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok 5\n", "")


def test_an_inner_run_has_its_own(tmp_path):
    """The variable of an outer twinrun is not taken for the user's."""
    env = environment(tmp_path, TWINRUN_NCCL="on")
    inner = [TWINRUN, "record", "-q", "--label", "inner", "--", DOUBLE, CALLS[0]]
    done = subprocess.run(
        [TWINRUN, "record", "-q", "--label", "outer", "--", *inner],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (run,) = [p for p in (Path(env["TWINRUN_HOME"]) / "runs").iterdir() if "inner" in p.name]
    assert len(list((run / "nccl").iterdir())) == 1 and not noted(run)


# ---- a NCCL whose calls are not seen


def linked(tmp_path, kind, *loaded):
    """A recorded run of a program that has NCCL in this way, and what it loads."""
    program = os.path.join(BUILD, "tests", "agents", "nccl_linked_job" + kind)
    libraries = [tmp_path / name for name in loaded]
    for path in libraries:
        shutil.copy(os.path.join(BUILD, "tests", "agents", "idle_library.so"), path)
    env = environment(tmp_path, TWINRUN_WATCH="1")
    runs = tmp_path / "home" / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    words = [TWINRUN, "record", "-q", "--", program, *map(str, libraries)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = set(runs.iterdir()) - before
    (path,) = (run / "ranks").glob("*.twt")
    noted = [v.decode() for k, v in Trace.open(path).notes if k == b"nccl.unseen"]
    met = "watch.libraries\tnccl\n" in (run / "factors").read_text()
    return run, noted, met


def test_collectives_that_are_not_seen(tmp_path):
    """Of a NCCL that is linked statically, or that no PyTorch uses; the outcome stays, since what
    the job shows was compared. Isolate then tries NCCL's factors."""
    program = os.path.join(BUILD, "tests", "agents", "nccl_linked_job_static")
    static = "NCCL is linked statically into " + program
    shared = "what is given to %s is recorded for PyTorch alone" % (tmp_path / "libnccl.so.2")
    driver = "libcuda.so.1"
    run, noted, met = linked(tmp_path, "_static", driver)
    assert noted == [static] and met
    assert linked(tmp_path, "_static")[1:] == ([], False)  # no GPU, no NCCL
    other, noted, met = linked(tmp_path, "", driver, "libnccl.so.2")
    assert noted == [shared] and met
    for kind, loaded in (
        ("", (driver,)),
        ("_stub", (driver,)),  # it would load the library
        ("_stripped", (driver,)),  # nothing tells it from a program without
        ("_static", (driver, "libtorch_python.so")),  # its hooks see the contents
    ):
        assert linked(tmp_path, kind, *loaded)[1] == []
    done = subprocess.run(
        [TWINRUN, "diff", "--json", str(run), str(other)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    verdict = json.loads(done.stdout)
    assert verdict["outcome"] == "same" and done.returncode == 0
    for text in ("run 1: collectives unseen: " + static, "run 2: collectives unseen: " + shared):
        assert text in verdict["notes"]


# ---- verdicts

TREE = "AllReduce:65536:ncclFloat32:TREE:LL128:4@3", CALLS[0] + "!3"


def compared(tmp_path, *runs, expected):
    """What diff says of two runs, as JSON; each claim of it is confirmed by recheck."""
    done = subprocess.run(
        [TWINRUN, "diff", "--json", *map(str, runs)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    verdict = tmp_path / "verdict.json"
    verdict.write_text(done.stdout)
    results = recheck.recheck(str(verdict), [str(r) for r in runs])
    assert not [r for r in results if r[0] == "refuted"]
    (state,) = [r[0] for r in results if r[1] == "note" and "NCCL" in r[2]]
    assert state == "confirmed"
    return json.loads(done.stdout)


def about_nccl(verdict):
    return [n for n in verdict["notes"] if "NCCL" in n]


def test_another_algorithm_in_one_run(tmp_path):
    """Tree in one run and Ring in the other; with equal values, and before they differ."""
    name = ("--name", "dp", "--rank", "2", "--steps", "6")
    ring, _ = record(tmp_path, *name, *CALLS[:2])
    tree, _ = record(tmp_path, *name, *TREE, CALLS[1])
    odd, _ = record(tmp_path, *name, "--odd", "4", *TREE, CALLS[1])
    ran = (
        'NCCL ran AllReduce 6 of communicator 1 "dp", rank 2 of 4 (step 3 of rank 0, 65,536 '
        "ncclFloat32) by algorithm %s, protocol LL128, channels 4 in run 1 and by algorithm %s, "
        "protocol LL128, channels 4 in run 2; it chose otherwise for 1 of the 12 collectives that "
        "were compared"
    )
    same = compared(tmp_path, ring, tree, expected=0)
    assert about_nccl(same) == [ran % ("RING", "TREE") + "; nothing else that was compared differs"]
    differ = compared(tmp_path, odd, ring, expected=1)
    assert about_nccl(differ) == [ran % ("TREE", "RING")]


def test_a_sentence_that_is_not_so_is_refuted(tmp_path):
    name = ("--steps", "6")
    ring, _ = record(tmp_path, *name, *CALLS[:2])
    tree, _ = record(tmp_path, *name, *TREE, CALLS[1])
    compared(tmp_path, ring, tree, expected=0)
    verdict = tmp_path / "verdict.json"
    whole = verdict.read_text()
    for true, false in (
        ("AllReduce 6", "AllReduce 8"),
        ("step 3 of rank 0", "step 4 of rank 0"),
        ("algorithm TREE", "algorithm NVLS"),
        ("1 of the 12", "2 of the 12"),
        ("1 of the 12", "1 of the 13"),
        ("communicator 1,", "communicator 2,"),
    ):
        assert true in whole
        verdict.write_text(whole.replace(true, false))
        results = recheck.recheck(str(verdict), [str(ring), str(tree)])
        assert len([r for r in results if r[0] == "refuted" and r[1] == "note"]) == 1, false


def test_one_run_has_no_plugin(tmp_path):
    ring, _ = record(tmp_path, CALLS[0])
    none, _ = record(tmp_path, CALLS[0], TWINRUN_NCCL="off")
    verdict = compared(tmp_path, ring, none, expected=1)  # what the double prints
    said = "what NCCL chose was not compared: it was recorded in run 1 alone"
    assert said in about_nccl(verdict)
