# SPDX-License-Identifier: Apache-2.0
"""Jobs of torch_jobs/, run alone and under the agent with the double of the library
(fake_native.py); each once.
"""

import json
import os
import subprocess
import sys
import tempfile

from conftest import CALM, CALM_SITE, FULL, LIGHT_SITE
from job_pool import once

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = os.path.join(HERE, "torch_jobs")
PYTHON = os.environ.get("TWINRUN_TEST_PYTHON", sys.executable)


def environment(**more):
    env = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("TWINRUN_", "FAKE_"))
        and k not in ("LD_PRELOAD", "PYTHONPATH", "RANK", "WORLD_SIZE")
    }
    env.update(CALM, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
    env.update(more)
    return env


def _run(command, env, cwd):
    return subprocess.run(
        command,
        env=env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def faked(light=False, **more):
    """The environment in which fake_site arms every Python with the double. light: conftest.light."""
    shadowed = LIGHT_SITE if light else CALM_SITE
    if light or not FULL:
        more["FAKE_SHADOWED"] = str(shadowed / "sitecustomize.py")
    return environment(PYTHONPATH=os.path.join(HERE, "fake_site"), **more)


@once
def alone(job, args=(), options=()):
    """The job with nothing of ours around it."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(
            [PYTHON, *options, os.path.join(JOBS, job + ".py"), *args], environment(), folder
        )


class Observed:
    """done: how it ended; records and notes: what the double kept, in order."""

    def __init__(self, done, rows):
        self.done = done
        self.records = [r for r in rows if "note" not in r]
        self.notes = [(r["note"], r["value"]) for r in rows if "note" in r]

    def note(self, key):
        """The last value of a note; None when there is none."""
        return next((value for found, value in reversed(self.notes) if found == key), None)

    def select(self, **want):
        return [r for r in self.records if all(r[k] == v for k, v in want.items())]

    def names(self, **want):
        return [r["name"] for r in self.select(**want)]

    def steps(self, **want):
        return [r["step"] for r in self.select(**want)]


@once
def observed(job, level="tensors", args=(), options=(), extra=(), light=False):
    """The job under the agent. light: without PyTorch's compiler (conftest.light)."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "records")
        env = faked(light, FAKE_OUT=out, FAKE_LEVEL=level, **dict(extra))
        done = _run([PYTHON, *options, os.path.join(JOBS, job + ".py"), *args], env, folder)
        rows = []
        if os.path.exists(out):
            with open(out) as f:
                rows = [json.loads(line) for line in f]
        return Observed(done, rows)
