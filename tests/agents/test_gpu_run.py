# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/run, which is for a machine with a GPU, works on a double of the driver. And it can
fail: without a GPU it says so, and of a kernel whose first barrier is taken away that bits are
other ones.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build"))
DOUBLE = BUILD / "tests/kernels/libcuda.so.1"
pytestmark = pytest.mark.skipif(not DOUBLE.exists(), reason="no double of the driver in the build")

# Runs the script, and once more with the site of a barrier removed (struct cuda_double).
TWICE = """
import ctypes, runpy, sys
script, double, build = sys.argv[1:]
sys.argv = [script, "--double", double, "--tensors", "100", "--build", build]
sys.argv += ["--parts", "kernels,nccl,cupti"]
module = runpy.run_path(script)
whole = module["main"]()
functions = (ctypes.c_void_p * 4).in_dll(ctypes.CDLL(double), "twin_cuda_double")
ctypes.CFUNCTYPE(None, ctypes.c_int)(functions[2])(0)
broken = module["main"]()
print("whole", whole, "broken", broken)
if not module["torch"].cuda.is_available():
    try:
        module["start_driver"](None)
    except SystemExit as ended:
        print("no GPU", ended.code)
"""


def test_on_a_double():
    run = subprocess.run(
        [sys.executable, "-c", TWICE, str(ROOT / "tests" / "gpu" / "run"), str(DOUBLE), str(BUILD)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "100 tensors, of which 0 have other bits than on the host" in run.stdout
    assert "OTHER BITS: torch." in run.stdout
    assert "whole 0 broken 1\n" in run.stdout
    if (BUILD / "tests/agents/cupti_double.so").exists():
        assert run.stdout.count("CUPTI (a double): other kernels on a GPU: step 2 of rank 0") == 2
    assert run.stdout.count("NCCL (a double): NCCL ran AllReduce 0 of communicator 1") == 2
    assert torch.cuda.is_available() or (
        run.stdout.endswith("no GPU 2\n")
        and "PyTorch sees no GPU: expected a CUDA build of it and a driver" in run.stderr
    )


def test_verdicts_and_cost_on_the_processor(tmp_path):
    """The parts that start twinrun, where attention alone has two ways: its arms must differ, and
    its twins must not. A ghost that says otherwise is counted as wrong.
    """
    json_file = tmp_path / "figures.json"
    words = [
        "--parts",
        "verdicts,overhead,sum,waits,sanitizer",
        "--verdicts",
        "sdpa",
        "--json",
        str(json_file),
    ]
    run = subprocess.run(
        [sys.executable, ROOT / "tests/gpu/run", "--double", DOUBLE, "--build", BUILD, *words],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    figures = json.loads(json_file.read_text())
    assert figures["ghost sdpa, free"] == "differ"
    assert figures["ghost sdpa, twin"] == "same"
    assert figures["mlp_overhead"] > 0
    parts = figures["parts"]
    assert all(parts[name] is True for name in ("verdicts", "overhead", "sum", "waits")), parts
    assert "(doubles of CUDA and CUB: the times say nothing)" in run.stdout
    assert "exact sum over CUB's plain sum" not in figures
    # a record waits for its stream; without recording this job never does. Kernels that were not
    # built wait for nothing: tensors are copied then, by PyTorch.
    waits = figures["waits that recording adds to a step"]
    assert waits >= 1 if (BUILD / "agents/look.fatbin").exists() else waits == 0
    assert "(a double of the driver): " in run.stdout
    assert "each step without: 0 0 0 0 0 0; with: " in run.stdout


# Counts what a double of libcupti tells; the numbers are those of tests/gpu/waits.h, and 307 is a
# launch.
COUNTED = """
import ctypes, os, subprocess, sys
sys.path.insert(0, "tests/gpu")
import waits
library = waits.build(sys.argv[1], lambda words: subprocess.run(words, check=True))
waited = waits.counter(library)
tell = (ctypes.c_void_p * 9).in_dll(ctypes.CDLL("libcupti.so.13"), "twin_cupti_double")[8]
for number in (17, 307, 121, 126, 126, 440, 800):
    ctypes.CFUNCTYPE(None, ctypes.c_uint)(tell)(number)
    print(number, waited())
"""


def test_waits_are_counted_by_cupti(tmp_path):
    """Each function that waits, once a call; a launch is none."""
    double = BUILD / "tests/agents/cupti_double.so"
    if not double.exists():
        pytest.skip("no double of libcupti in the build")
    (tmp_path / "libcupti.so.13").symlink_to(double)
    run = subprocess.run(
        [sys.executable, "-c", COUNTED, tmp_path],
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "CUDA_HOME": "", "CUDA_PATH": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == "17 1,307 1,121 2,126 3,126 4,440 5,800 6".split(",")


def test_added_waits():
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    try:
        import waits
    finally:
        sys.path.pop(0)
    assert waits.added({"without": ["2", "2"], "with": ["7", "8"]}) == 5.5
    assert waits.added({"without": ["2", "2"], "with": ["2", "2"]}) == 0


def test_a_wrong_sum_has_no_time(tmp_path):
    """What fails, or says other things than times, gives no figure."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    try:
        import exact_sum
    finally:
        sys.path.pop(0)
    program = tmp_path / "sum_speed"
    for text, found in (
        ("echo exact_us 20; echo cub_us 10; exit 0", {"exact_us": 20.0, "cub_us": 10.0}),
        ("echo exact_us 20; echo cub_us 10; exit 1", None),
        ("echo exact_us 20", None),
    ):
        program.write_text("#!/bin/sh\n" + text + "\n")
        program.chmod(0o755)
        assert exact_sum.measure(program, 1, 1) == found


def test_what_counts_as_wrong():
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    try:
        import verdicts
    finally:
        sys.path.pop(0)
    assert verdicts.judge("differ", "differ", "cuda", "tf32")
    assert not verdicts.judge("differ", "same", "cuda", "tf32")
    assert not verdicts.judge("may", "inconclusive", "cuda", "embedding")
    assert not verdicts.judge("differ", "same", "cpu", "sdpa")
    assert not verdicts.judge("may", "no verdict", "cpu", "tf32")
    named = {"outcome": "isolated", "causes": [{"factor": "torch-deterministic"}]}
    assert verdicts.judge_isolate(named, "cuda")
    assert not verdicts.judge_isolate(named, "cpu")
    assert not verdicts.judge_isolate({"outcome": "not-isolated", "causes": []}, "cuda")
    assert not verdicts.judge_isolate({"outcome": "error", "causes": []}, "cpu")
    assert not verdicts.judge_isolate(None, "cuda")


def test_the_bars_are_judged():
    """Each bar beside a figure on either side of it; what was not measured is neither."""
    sys.path.insert(0, str(ROOT / "tests" / "gpu"))
    try:
        import bars
    finally:
        sys.path.pop(0)
    good = {bars.DIGEST: 0.85, bars.ALL_THREE: 0.6, bars.SMALL: 50, bars.WATCHING: 1.0}
    good.update({bars.EXACT: 0.8, bars.WAITS: 0})
    assert bars.tell(good)
    for name, bad in (
        (bars.DIGEST, 0.849),
        (bars.ALL_THREE, float("nan")),
        (bars.SMALL, 50.1),
        (bars.WATCHING, 1.011),
        (bars.EXACT, 0.79),
        (bars.WAITS, 0.5),
    ):
        assert not bars.tell({**good, name: bad}), name
        missed = [said for said, met in bars.judge({**good, name: bad}) if met is False]
        assert len(missed) == 1 and missed[0].startswith(name + ", at ") and "MISSED" in missed[0]
    assert all(met is None for _, met in bars.judge({})) and bars.tell({})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, and it takes minutes")
def test_the_benchmark_without_a_gpu():
    words = [sys.executable, ROOT / "bench/gpu.py", "--full"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout) == (0, "no GPU: the bars of the GPU are not measured\n")
