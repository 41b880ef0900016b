# SPDX-License-Identifier: Apache-2.0
"""Which kernels a job launches: the agent as a subscriber of CUPTI, told by a double of libcupti
(cupti_double.c, built with the real headers) that a program drives in place of the CUDA driver
(cupti_job.c); where the library is looked for; and every reason for which the agent stands aside.
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

HERE = Path(BUILD) / "tests" / "agents"
JOB = str(HERE / "cupti_job")
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")
pytestmark = pytest.mark.skipif(
    not (HERE / "cupti_double.so").exists(),
    reason="no double of libcupti in the build: it takes cupti_callbacks.h",
)
VARIABLES = "CUDA_INJECTION64_PATH", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"
FORWARD = "kernel:_ZN2at6native7forwardILi64EEEvPf:32:128:1024"
STEPS = FORWARD, "ex:gemm_128x64:8:256:4096", "cooperative:sum:4:64:0"


def environment(tmp_path, double="cupti_double", place="lib64", **more):
    """With a CUDA_HOME that has the double."""
    env = clean_environment()
    for name in VARIABLES:
        env.pop(name, None)
    folder = tmp_path / double / place
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / (double + ".so"), folder / "libcupti.so.13")
    env = {**env, "TWINRUN_HOME": str(tmp_path / "home"), "TWINRUN_CUPTI": "on"}
    return {**env, "CUDA_HOME": str(tmp_path / double), **more}


def record(tmp_path, *words, **more):
    """The folder of a recorded run of the job, and what it printed."""
    runs = tmp_path / "home" / "runs"
    before = set(runs.iterdir()) if runs.exists() else set()
    done = subprocess.run(
        [TWINRUN, "record", "-q", "--", JOB, *words],
        env=environment(tmp_path, **more),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    (run,) = set(runs.iterdir()) - before
    return run, done.stdout


def launches_of(run):
    """({(thread, step): [(name, shape)]}, [(bytes, step) of modules], notes) of the one process."""
    (path,) = (run / "kernels").glob("*.twt")
    trace = Trace.open(path)
    assert not trace.verify() and trace.info.closed and trace.info.dropped == trace.info.lost == 0
    listed, steps, modules = {}, {}, []
    for r in sorted(trace.records(), key=lambda r: r.seq):
        s, y = trace.series[r.series], trace.layouts[r.layout]
        site = trace.string(s.site)
        if site == "launch":
            of = listed.setdefault(r.digest[0], {})
            assert of.setdefault(r.digest[1], None) is None
            of[r.digest[1]] = trace.string(s.name), trace.string(s.op)
        elif site == "module":
            modules.append((y.shape[0], r.digest[1]))
        else:
            assert site == "sequence"
            steps[trace.string(s.scope), r.digest[1]] = r.digest[0], y.shape[0]
    found = {}
    for key, (digest, count) in steps.items():
        assert sorted(listed[digest]) == list(range(count))
        found[key] = [listed[digest][i] for i in range(count)]
    return found, modules, {k.decode(): v.decode() for k, v in trace.notes}


def shape(grid, block, shared):
    return "grid %d x 2 x 1, block %d x 1 x 1, %d bytes shared" % (grid, block, shared)


def faults(run):
    path = run / "faults"
    return path.read_text() if path.exists() else ""


def notes_of(run):
    return [n for n in json.loads((run / "run.json").read_text())["notes"] if "kernels" in n]


def test_every_way_to_launch(tmp_path):
    """Each function of the driver, its shape, in order, in its step; the sequence listed once."""
    ways = "kernel", "kernel_ptsz", "ex", "ex_ptsz", "cooperative", "cooperative_ptsz"
    words = ["%s:_Z%d%s:%d:%d:%d" % (w, len(w), w, i + 1, 32 * i, i) for i, w in enumerate(ways)]
    run, said = record(tmp_path, *words, "graph:7", "graph:3@2", "module:some code@1", "graph:7!2")
    assert said == "ok 1\n" and not faults(run) and not notes_of(run)
    found, modules, notes = launches_of(run)
    kernels = [("_Z%d%s" % (len(w), w), shape(i + 1, 32 * i, i)) for i, w in enumerate(ways)]
    one, two = ("CUDA graph 1", "a whole graph"), ("CUDA graph 2", "a whole graph")
    usual = [*kernels, one, one]
    assert found == {
        ("main thread", step): [*kernels, one, two] if step == 2 else usual for step in range(4)
    }
    assert modules == [(9, 1)] and notes == {"kernels.cupti": "130001"}
    (path,) = (run / "kernels").glob("*.twt")
    # four steps, two sequences of eight launches, a module
    assert len(list(Trace.open(path).records())) == 4 + 2 * 8 + 1


def test_several_threads_and_a_child(tmp_path):
    run, said = record(tmp_path, "--threads", "3", "--child", *STEPS, "kernel:odd:1:1:0@1")
    found, _, notes = launches_of(run)
    assert said == "ok 1\n" and len(found) == 3 * 4 and "kernels.lost" not in notes
    assert {t for t, _ in found} == {"main thread", "thread 2", "thread 3"}
    for (_, step), launches in found.items():
        assert [n for n, _ in launches] == [
            w.split(":")[1] for w in (*STEPS, *(["kernel:odd"] if step == 1 else []))
        ]


def test_what_is_unloaded_has_no_name(tmp_path):
    """The driver gives a handle anew: behind an unloading another kernel, and another graph."""
    run, _ = record(tmp_path, "--unload", "2", "kernel:alpha:1:1:0", "graph:0")
    found, _, _ = launches_of(run)
    names = {step: [n for n, _ in launches] for (_, step), launches in found.items()}
    assert names[1] == ["alpha", "CUDA graph 1"]
    assert names[3][0] == "blpha" and names[3][1] in ("CUDA graph 2", "CUDA graph 1")


def test_what_no_library_sends(tmp_path):
    run, said = record(tmp_path, "--hostile", *STEPS)
    found, modules, notes = launches_of(run)
    assert said == "ok 1\n" and modules == [(77, 0)]
    assert [n for n, _ in found["main thread", 4]] == ["?"] and len(found) == 5


# ---- where the library is, and why the agent stands aside


@pytest.mark.parametrize("place", ["lib64", "extras/CUPTI/lib64", "lib"])
def test_places_of_a_toolkit(tmp_path, place):
    run, said = record(tmp_path, *STEPS, place=place)
    assert said == "ok 1\n" and len(launches_of(run)[0]) == 4
    env = {"CUDA_HOME": "", "CUDA_PATH": str(tmp_path / "cupti_double")}
    assert record(tmp_path, *STEPS, place=place, **env)[1] == "ok 1\n"


def test_where_the_loader_looks(tmp_path):
    env = {"CUDA_HOME": "", "LD_LIBRARY_PATH": str(tmp_path / "cupti_double" / "lib64")}
    assert record(tmp_path, *STEPS, **env)[1] == "ok 1\n"


def test_packages_of_python(tmp_path):
    """Beside a library of CUDA's Python packages that the process has loaded."""
    site = tmp_path / "site-packages" / "nvidia"
    for folder, name in (("cuda_runtime/lib", "libloaded.so"), ("cu13/lib", "libcupti.so.13")):
        (site / folder).mkdir(parents=True)
        shutil.copy(HERE / "cupti_double.so", site / folder / name)
    # its soname would say that libcupti is loaded: another library takes its place
    shutil.copy(LIBRARY, site / "cuda_runtime/lib/libloaded.so")
    env = {"CUDA_HOME": "", "LD_PRELOAD": str(site / "cuda_runtime/lib/libloaded.so")}
    assert record(tmp_path, *STEPS, **env)[1] == "ok 1\n"


OTHER = "something else in the job uses CUPTI (a profiler)"
INVALID = "cuptiEnableCallback failed with CUPTI_ERROR_INVALID_PARAMETER (1)"
FATAL = "CUPTI had a fatal error and ended itself"
# a real library, where the machine has one, does not start without a driver
NONE = "no libcupti.so.13, libcupti.so.12 or", "cuptiSubscribe failed with CUPTI_ERROR_"


@pytest.mark.parametrize(
    "words, env, said, why",
    [
        (["--other"], {}, "ok 1", [OTHER]),
        ([], {"CUPTI_DOUBLE_VERSION": "17"}, "ok 0", ["the version 17: expected 18 (CUDA 11.8)"]),
        ([], {"CUPTI_DOUBLE_VERSION": "140000"}, "ok 0", ["the version 140000: expected 18"]),
        ([], {"CUPTI_DOUBLE_VERSION": "5000"}, "ok 0", ["the version 5000: expected 18"]),
        ([], {"CUPTI_DOUBLE_REFUSES": "1:652"}, "ok 0", [INVALID]),
        ([], {"CUPTI_DOUBLE_REFUSES": "3:7"}, "ok 0", [INVALID]),
        ([], {"double": "cupti_lacking"}, "ok -", ["the library libcupti has no cuptiSubscribe"]),
        ([], {"CUDA_HOME": "/nowhere"}, "ok -", NONE),
        (["--fatal", "2"], {}, "ok 1", [FATAL]),
    ],
)
def test_stands_aside(tmp_path, words, env, said, why):
    """One line of the run says why, and the job is as it would be. Where it could not subscribe to
    all, it does not stay subscribed to some.
    """
    run, printed = record(tmp_path, *words, *STEPS, **env)
    assert printed == said + "\n"
    told = faults(run)
    assert told.count("the kernels launched on a GPU are not recorded: ") == 1
    assert any(w in told for w in why), told
    if why == [FATAL]:  # what was seen before is there
        found, _, notes = launches_of(run)
        assert sorted(s for _, s in found) == [0, 1] and notes["kernels.stopped"] == FATAL
    elif (run / "kernels").exists():
        assert launches_of(run)[:2] == ({}, [])


def test_a_callback_that_older_libraries_lack(tmp_path):
    run, said = record(tmp_path, *STEPS, CUPTI_DOUBLE_REFUSES="6:1")
    assert said == "ok 1\n" and not faults(run) and len(launches_of(run)[0]) == 4


def test_who_is_asked(tmp_path):
    """Not who does not ask, and not where the driver has a library to load already."""
    for word in ("off", ""):
        run, said = record(tmp_path, *STEPS, TWINRUN_CUPTI=word)
        assert said == "ok -\n" and not (run / "kernels").exists() and not notes_of(run)
    run, said = record(tmp_path, *STEPS, CUDA_INJECTION64_PATH="/opt/profiler.so")
    assert said == "ok -\n" and not (run / "kernels").exists()
    (note,) = notes_of(run)
    assert "CUDA_INJECTION64_PATH is set to /opt/profiler.so already" in note


def test_without_a_run_the_agent_is_idle(tmp_path):
    env = environment(tmp_path, CUDA_INJECTION64_PATH=LIBRARY)
    done = subprocess.run([JOB, *STEPS], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok -\n", "")


# ---- verdicts


def compared(tmp_path, *runs, expected):
    """What diff says of kernels in two runs; recheck confirms it."""
    done = subprocess.run(
        [TWINRUN, "diff", "--json", *map(str, runs)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    (tmp_path / "verdict.json").write_text(done.stdout)
    results = recheck.recheck(str(tmp_path / "verdict.json"), [str(r) for r in runs])
    assert not [r for r in results if r[0] == "refuted"]
    said = [n for n in json.loads(done.stdout)["notes"] if "kernels" in n]
    assert [r[0] for r in results if r[1] == "note" and "kernels" in r[2]] == ["confirmed"] * len(
        said
    )
    return said


def changed(words, at, **steps):
    """The job's words with another launch in one step in place of launch `at`."""
    ((step, other),) = steps.items()
    step = step.lstrip("step")
    return (*words[:at], "%s@%s" % (other, step), "%s!%s" % (words[at], step), *words[at + 1 :])


SHORT = "at::native::forward<...>"
SAME = "; nothing else that was compared differs"


def test_runs_that_launch_the_same_say_nothing(tmp_path):
    one, _ = record(tmp_path, "--threads", "2", "graph:1", *STEPS)
    two, _ = record(tmp_path, "--threads", "2", "graph:1", *STEPS)
    assert compared(tmp_path, one, two, expected=0) == []
    odd, _ = record(tmp_path, "--odd", "1", "--threads", "2", "graph:1", *STEPS)
    assert compared(tmp_path, one, odd, expected=1) == [
        "the same kernels were launched on a GPU in run 1 and run 2, in the same order, 32 of them "
        "in the 8 steps of a thread that were compared"
    ]
    code = ("module:one code", "module:other code"), ("module:one code", "module:yet others")
    runs = [record(tmp_path, "--odd", str(i), *c, *STEPS)[0] for i, c in enumerate(code)]
    (note,) = compared(tmp_path, *runs, expected=1)
    assert note.endswith(
        "; of the machine code that was loaded, 4 modules of run 1 and 4 of run 2 have no equal in "
        "the other"
    )


def test_another_kernel(tmp_path):
    """Named with its shape, in both orders; beside the first difference; never as a cause."""
    one, _ = record(tmp_path, *STEPS)
    other = "ex:gemm_256x64:4:256:8192"
    two, _ = record(tmp_path, *changed(STEPS, 1, step2=other))
    said = (
        "other kernels on a GPU: step 2 of rank 0 (main thread) launched 3 in run 1 and 3 in run 2: "
        "launch 2 is %s in run 1 and %s in run 2; launches differ in 1 of the 4 steps of a thread "
        "that were compared"
    )
    names = "gemm_128x64 (%s)" % shape(8, 256, 4096), "gemm_256x64 (%s)" % shape(4, 256, 8192)
    assert compared(tmp_path, one, two, expected=0) == [said % names + SAME]
    assert compared(tmp_path, two, one, expected=0) == [said % names[::-1] + SAME]
    for odd, where in (("3", "before"), ("2", "in"), ("1", "behind")):
        three, _ = record(tmp_path, "--odd", odd, *changed(STEPS, 1, step2=other))
        (note,) = compared(tmp_path, one, three, expected=1)
        assert note == said % names + "; it was seen %s the step of the first difference" % where


def test_template_arguments(tmp_path):
    one, _ = record(tmp_path, *STEPS)
    two, _ = record(tmp_path, *changed(STEPS, 0, step1=FORWARD.replace("Li64", "Li32")))
    (note,) = compared(tmp_path, one, two, expected=0)
    assert "launch 1 is %s [...e7forwardILi64EEEvPf] (" % SHORT in note
    assert "and %s [...e7forwardILi32EEEvPf] (" % SHORT in note
    three, _ = record(tmp_path, *changed(STEPS, 0, step1=FORWARD.replace(":32:", ":64:")))
    (note,) = compared(tmp_path, one, three, expected=0)
    both = tuple("%s (%s)" % (SHORT, shape(grid, 128, 1024)) for grid in (32, 64))
    assert "launch 1 is %s in run 1 and %s in run 2;" % both in note


def test_order_and_number(tmp_path):
    one, _ = record(tmp_path, *STEPS)
    swapped = STEPS[0] + "!1", STEPS[1], STEPS[0] + "@1", STEPS[2]
    two, _ = record(tmp_path, *swapped)
    (note,) = compared(tmp_path, one, two, expected=0)
    assert "(main thread) launched the same 3 in another order: launch 1 is %s (" % SHORT in note
    three, _ = record(tmp_path, *STEPS, "graph:2@3")
    (note,) = compared(tmp_path, one, three, expected=0)
    assert (
        "step 3 of rank 0 (main thread) launched 3 in run 1 and 4 in run 2, the same up to launch 4 "
        "of run 2, CUDA graph 1 (a whole graph); launches" in note
    )
    four, _ = record(tmp_path, *(w + "!2" for w in STEPS))
    (note,) = compared(tmp_path, one, four, expected=0)
    assert "step 2 of rank 0 (main thread) launched 3 in run 1 and none in run 2; launches" in note


def test_a_sentence_that_is_not_so_is_refuted(tmp_path):
    one, _ = record(tmp_path, *STEPS)
    two, _ = record(tmp_path, *changed(STEPS, 1, step2="ex:gemm_256x64:4:256:8192"))
    compared(tmp_path, one, two, expected=0)
    verdict = tmp_path / "verdict.json"
    whole = verdict.read_text()
    for true, false in (
        ("step 2 of rank 0", "step 1 of rank 0"),
        ("(main thread)", "(thread 2)"),
        ("launch 2 is", "launch 1 is"),
        ("gemm_256x64", "gemm_512x64"),
        ("8192 bytes", "4096 bytes"),
        ("launched 3 in run 1", "launched 4 in run 1"),
        ("in 1 of the 4", "in 2 of the 4"),
        ("in 1 of the 4", "in 1 of the 5"),
        ("launched 3 in run 1 and 3 in run 2", "launched the same 3 in another order"),
    ):
        assert true in whole
        verdict.write_text(whole.replace(true, false))
        results = recheck.recheck(str(verdict), [str(one), str(two)])
        assert len([r for r in results if r[0] == "refuted" and r[1] == "note"]) == 1, false


def test_one_run_is_not_seen(tmp_path):
    one, _ = record(tmp_path, *STEPS)
    off, _ = record(tmp_path, *STEPS, TWINRUN_CUPTI="off")
    said = "kernels on a GPU were not compared: they were recorded in run 1 alone"
    assert said in compared(tmp_path, one, off, expected=1)  # what the job prints differs


# ---- joined to the catalogue of float atomics


def test_launched_kernels_that_contain_float_atomics(tmp_path):
    """By name; "contains" and no more; not what a compare-and-swap may be, nor what was not
    launched, nor a function that kernels call.
    """

    def row(function, architecture="sm_90", kernel=True, adds=True):
        return {
            "function": function,
            "architecture": architecture,
            "kernel": kernel,
            "adds_floats": adds,
            "instructions": {"REDG.ADD.F32" if adds else "ATOMG.CAS": 3},
        }

    rows = [row("sum"), row("sum", "sm_80"), row("gemm_128x64", adds=False), row("elsewhere")]
    rows.append(row(FORWARD.split(":")[1], kernel=False))
    catalogue = tmp_path / "atomics.json"
    catalogue.write_text(
        json.dumps({"schema": "twinrun.float-atomics/1", "files": [{"listed": rows}]})
    )
    run, _ = record(tmp_path, "--threads", "2", *STEPS, "cooperative:sum:4:64:0@1")

    def join(*words):
        tool = [sys.executable, str(ROOT / "tools" / "launched_atomics.py"), *map(str, words)]
        return subprocess.run(tool, capture_output=True, text=True, timeout=60)

    done = join(run, catalogue)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "sum, launched 10 times, contains on sm_90: REDG.ADD.F32 3 times\n"
        "sum, launched 10 times, contains on sm_80: REDG.ADD.F32 3 times\n"
        "1 of the 3 kernels that were launched contain atomic additions of floats by these "
        "catalogues; whether they were executed, and two threads added to one address, is not "
        "known\n"
    )
    bare, _ = record(tmp_path, *STEPS, TWINRUN_CUPTI="off")
    (tmp_path / "other.json").write_text("[1]")
    for words, why in (
        ((bare, catalogue), "record with TWINRUN_CUPTI=on"),
        ((run, tmp_path / "other.json"), "expected a file that tools/float_atomics.py -o has"),
        ((run, tmp_path / "absent"), "absent"),
    ):
        done = join(*words)
        assert done.returncode == 2 and why in done.stderr and "Traceback" not in done.stderr
