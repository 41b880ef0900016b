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
        "verdicts,overhead,sanitizer",
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
    assert figures["parts"]["verdicts"] is figures["parts"]["overhead"] is True


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
    assert bars.tell(good)
    for name, bad in (
        (bars.DIGEST, 0.849),
        (bars.ALL_THREE, float("nan")),
        (bars.SMALL, 50.1),
        (bars.WATCHING, 1.011),
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
