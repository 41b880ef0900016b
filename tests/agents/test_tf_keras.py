# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on JAX and on PyTorch: a seeded job is the same, one without a seed differs, and the
names say what a value is to the job.

Keras is taken from the Python in TWINRUN_TF_PYTHON, what it computes with from TWINRUN_JAX_PYTHON
and TWINRUN_TEST_PYTHON: a folder of links has both, and no TensorFlow.
"""

import os
import subprocess
import sys

import pytest
from job_pool import once
from native import LIBRARY, ROOT, Run

JOB = os.path.join(ROOT, "tests", "agents", "keras_jobs", "fit.py")
KERAS = os.environ.get("TWINRUN_TF_PYTHON", sys.executable)
PYTHONS = {
    "jax": os.environ.get("TWINRUN_JAX_PYTHON", sys.executable),
    "torch": os.environ.get("TWINRUN_TEST_PYTHON", sys.executable),
}


@once
def site_of(python, package):
    """(version of this Python, folder of its packages); None: it has no such package."""
    script = (
        "import importlib.util as u, sys, sysconfig; "
        f"print(sys.version_info[:2], sysconfig.get_path('purelib')) if u.find_spec('{package}') else 0"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True)
    found = done.stdout.strip()
    return found.rsplit(" ", 1) if done.returncode == 0 and found else None


@pytest.fixture(scope="module", params=["jax", "torch"])
def keras(request, tmp_path_factory):
    """(backend, a Python that has it and Keras)"""
    backend = request.param
    if not os.path.exists(LIBRARY):
        pytest.skip(f"not built: {LIBRARY}")
    own, other = site_of(PYTHONS[backend], backend), site_of(KERAS, "keras")
    if own is None or other is None or own[0] != other[0]:
        pytest.skip(f"no Python with {backend}, or none of the same version with keras")
    folder = tmp_path_factory.mktemp(backend)
    subprocess.run([PYTHONS[backend], "-m", "venv", "--without-pip", folder], check=True)
    python = str(folder / "bin" / "python")
    (here,) = folder.glob("lib/python*/site-packages")
    for site in (own[1], other[1]):
        for name in os.listdir(site):
            if not name.startswith("tensorflow") and not os.path.lexists(here / name):
                os.symlink(os.path.join(site, name), here / name)
    (folder / "keras.json").write_text("{}")  # Keras makes it where there is none
    return backend, python


def runs_of(home):
    return sorted(home / "runs" / name for name in os.listdir(home / "runs"))


# what a record is to the job, at a step of `fit`
ROWS = {
    "jax": {
        ("data", "in", "program"),
        ("data", "in", "data[0]"),
        ("data", "in", "weight sequential/dense/kernel"),
        ("data", "in", "weight sequential/batch_normalization/moving_mean"),
        ("data", "in", "optimizer state adam/iteration"),
        ("data", "in", "optimizer state adam/sequential_dense_kernel_momentum"),
        ("data", "in", "hyperparameter adam/learning_rate"),
        ("data", "in", "generator state seed_generator/seed_generator_state"),
        ("data", "in", "metric loss/total"),
        ("forward", "activation", "train_step: result[0]['loss']"),
        ("forward", "activation", "train_step: metric loss/total"),
        ("optimizer", "weight", "train_step: sequential/dense/kernel"),
        ("optimizer", "moment", "train_step: adam/iteration"),
        ("optimizer", "hyper", "train_step: adam/learning_rate"),
    },
    "torch": {
        ("data", "indices", "sample indices"),
        ("data", "batch", "batch[0]"),
        ("forward", "activation", "output"),
        ("forward", "loss", "loss"),
        ("backward", "gradient", "_functional._torch_params.sequential/dense/kernel"),
        ("optimizer", "weight", "_functional._torch_params.sequential/dense/kernel"),
        (
            "backward",
            "weight",
            "_functional._torch_params.sequential/batch_normalization/moving_mean",
        ),
    },
}
# where two runs without a seed part, at the line of `fit`
PARTED = {
    "jax": "data · weight sequential/dense/kernel of train_step op train_step {line} in <module>",
    "torch": "torch was drawn from before any seed was set (DataLoader.__iter__ at {line} in <module>)",
}


def test_seeded_is_the_same_and_unseeded_differs(twinrun, home, script, keras):
    backend, python = keras
    with open(JOB) as f:
        text = f.read()
    path = script("fit.py", text)
    line = next(n for n, row in enumerate(text.splitlines(), 1) if "model.fit(" in row)
    environment = {
        "CUDA_VISIBLE_DEVICES": "",
        "KERAS_BACKEND": backend,
        "KERAS_HOME": os.path.dirname(os.path.dirname(python)),
    }
    same = twinrun("check", "--runs", "2", "--", python, path, env=environment)
    assert same.rc == 0 and same.out.startswith("SAME    8 steps, "), same
    seeded = runs_of(home)
    for _ in range(2):
        done = twinrun("record", "--", python, path, "unseeded", env=environment)
        assert done.rc == 0 and done.out.startswith(backend), done
    differ = twinrun("diff", *(run for run in runs_of(home) if run not in seeded))
    said = " ".join(differ.out.split())
    assert differ.rc == 1 and said.startswith("DIFFER from step 0 on (8 of 8 steps)"), differ
    assert PARTED[backend].format(line=f"fit.py:{line}") in said, differ.out
    (trace,) = (t for t in Run(seeded[0]).traces().values() if t.records)
    rows = {(r["phase"], r["kind"], r["name"]) for r in trace.records if r["step"] == 3}
    assert ROWS[backend] <= rows, ROWS[backend] - rows
    assert "agent.error" not in dict(trace.notes)
