# SPDX-License-Identifier: Apache-2.0
"""The recorded runs that mutants are made of: small jobs, each the same in two runs of a check."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIGHT_SITE = ROOT / "tests" / "agents" / "light_site"
sys.path.append(str(ROOT / "tests" / "agents"))

import job_pool  # noqa: E402

Recorded = namedtuple("Recorded", "name a b verdict")

# name -> command (python stands for the interpreter, {build} for the build folder), needs
JOBS = {
    "values": (["python", str(HERE / "jobs" / "values.py")], None),
    "arrays": (["python", str(HERE / "jobs" / "arrays.py")], "numpy"),
    "ranks": (["python", str(HERE / "jobs" / "ranks.py")], None),
    "threads": (["python", str(HERE / "jobs" / "threads.py")], None),
    "stepless": (["python", str(HERE / "jobs" / "stepless.py")], None),
    "trainer": (["{build}/workloads/trainer", "--steps", "6", "--ordered", "--threads", "2"], None),
    "torch": (["python", str(HERE / "jobs" / "torch_mlp.py")], "torch"),
}


def has(python, module):
    return subprocess.run([python, "-c", "import " + module], capture_output=True).returncode == 0


def environment(home):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TWINRUN_")}
    env.pop("NUDGE", None)
    env.update(TWINRUN_HOME=str(home), NO_COLOR="1", PYTHONDONTWRITEBYTECODE="1")
    return env


def record(name, folder, build, python=sys.executable):
    """Two runs of a job as run folders below `folder`; None where what the job needs is missing."""
    command, needs = JOBS[name]
    if needs and not has(python, needs):
        return None
    folder = Path(folder)
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    argv = [python if word == "python" else word.format(build=build) for word in command]
    env = environment(folder / "home")
    if needs == "torch":
        env["PYTHONPATH"] = str(LIGHT_SITE)
    done = subprocess.run(
        [
            Path(build) / "cmd" / "twinrun",
            "check",
            "--json",
            "--runs",
            "2",
            "--fresh-dir",
            "--",
            *argv,
        ],
        cwd=work,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        raise RuntimeError(
            "the job %s is not the same twice:\n%s\n%s" % (name, done.stdout, done.stderr)
        )
    verdict = json.loads(done.stdout)
    return Recorded(name, *(Path(d) for d in verdict["runs_dir"]), verdict)


def recorded(name, build, python=sys.executable):
    """As record, but once for all tests and workers of pytest: the folders are for reading."""
    texts = [Path(word).read_text() for word in JOBS[name][0] if word.endswith(".py")]
    key = (name, JOBS[name], texts, str(build), python)
    return job_pool.pooled(key, lambda folder: record(name, folder, build, python))
