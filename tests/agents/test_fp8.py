# SPDX-License-Identifier: Apache-2.0
"""The state of 8-bit floats that modules of Transformer Engine keep is recorded, and a scale that
one run alone had is found. The modules are a STAND-IN (fp8_stand_in/): Transformer Engine takes a
GPU.
"""

import subprocess
from pathlib import Path

import pytest
from native import Trace

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not hasattr(torch, "float8_e4m3fn"), reason="this PyTorch has no 8-bit floats"
)

JOB = Path(__file__).parent / "fp8_stand_in" / "job.py"
# what is changed -> the first that must be named, and its step
MUTANTS = {
    "replaced": ("2.fp8.scaling_fwd.scale", 2),
    "written": ("0.fp8.scaling_bwd.amax_history", 2),
    "lost": ("0.fp8.scaling_fwd.amax_history", 1),
    "late": ("0.fp8.scaling_fwd.scale", 4),
}


def recorded(recorded_once, python, *changed, number=0):
    return recorded_once([python, str(JOB), *changed], number=number)


def test_two_runs_are_the_same_and_compute_what_the_job_computes(recorded_once, python, twinrun):
    one, out = recorded(recorded_once, python)
    other, _ = recorded(recorded_once, python, number=1)
    assert twinrun("diff", one, other).rc == 0
    alone = subprocess.run([python, JOB], capture_output=True, text=True, timeout=100, check=True)
    assert alone.stdout == out


@pytest.mark.parametrize("changed", MUTANTS)
def test_a_changed_state_is_named_and_is_no_origin(recorded_once, python, twinrun, changed):
    """A line of the job has changed it, and nothing shows that line: neither the module that
    computes with it, nor the update that would have made it, is blamed.
    """
    name, step = MUTANTS[changed]
    one, _ = recorded(recorded_once, python)
    other, _ = recorded(recorded_once, python, changed)
    text = " ".join(twinrun("diff", one, other).out.split())
    assert "step %d · rank 0 · optimizer · hyperparameter %s " % (step, name) in text
    assert "ORIGIN" not in text
    assert "role unknown: it was made between" in text


def test_what_is_recorded(python, twinrun, tmp_path, work, calm):
    """The state before each forward, once it is there, and at the end of each step; at level
    modules what comes out of the modules, too.
    """
    words = ["record", "-q", "--level", "modules", "--home", tmp_path / "home", "--"]
    assert twinrun(*words, python, JOB).rc == 0
    (run,) = (tmp_path / "home" / "runs").iterdir()
    (path,) = (run / "ranks").iterdir()
    rows = [(r["step"], r["name"], r["kind"]) for r in Trace(str(path)).records]
    of_state = [
        "%d.fp8.scaling_%s.%s" % (module, way, field)
        for module in (0, 2)
        for way in ("fwd", "bwd")
        for field in ("scale", "scale_inv", "amax_history")
    ]
    for step in range(5):
        found = [(name, kind) for at, name, kind in rows if at == step and ".fp8." in name]
        times = 2 if step else 1  # the first forward makes it
        assert found == [(name, "hyper") for name in of_state] * times
        assert {(step, "0", "activation"), (step, "2", "activation")} <= set(rows)
