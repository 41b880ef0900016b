# SPDX-License-Identifier: Apache-2.0
"""Would the corpus find a watcher that does harm? Broken ones, each of which it must name.

A library beside the agent (corpus/mutant.c) or a program around the job does one small wrong thing:
prints a byte, leaks a descriptor, draws a number. The harness must find a difference of that name,
and none where the same machinery does nothing.
"""

import os
import subprocess

import pytest
from corpus_jobs import JOBS
from corpus_run import CORPUS, PYTHON, TWINRUN, Natively, Setting, compare

pytestmark = pytest.mark.skipif(not os.path.exists(TWINRUN), reason="no build: " + TWINRUN)
BY_NAME = {job.name: job for job in JOBS}

# What is broken, at which job, and the name of the difference that tells it.
IN_PROCESS = [
    ("print", "native-files", "output"),
    ("print-error", "native-memory", "output"),
    ("print-at-end", "native-files", "output"),
    ("status", "native-ends-code", "status"),
    ("leak", "native-descriptors", "file seen-end"),
    ("leak-closed-by-exec", "native-state", "file seen-end"),
    ("mask", "native-groups", "file seen-end"),
    ("handler", "native-state", "file seen-end"),
    ("limit", "native-groups", "file seen-end"),
    ("file", "shell-both", "file left-behind"),
    ("umask", "native-mmap", "file mapped"),
    ("rounding", "native-groups", "file seen-end"),
    ("input", "native-stdin", "output"),
    ("variable", "native-environment", "file seen-end"),
    ("nice", "native-groups", "file seen-end"),
    ("memory", "native-groups", "memory"),
]
REGROUPS = '"$@" 2>kept; status=$?; cat kept >&2; rm kept; exit $status'
SWALLOWS = '"$@" || exit 0'
DRAWS = (
    "import random, runpy, sys\n"
    "seed = random.seed\n"
    "def seeded(*a):\n    seed(*a)\n    %s\n"
    "random.seed = seeded\n"
    "sys.argv = sys.argv[1:]\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)
AROUND = [
    ("native-files", ["sh", "-c", '"$@"', "sh"], None),
    ("native-big", ["sh", "-c", REGROUPS, "sh"], "output"),
    ("native-ends-code", ["sh", "-c", SWALLOWS, "sh"], "status"),
    ("python-threads_", [PYTHON, "-c", DRAWS % "pass"], None),
    ("python-threads_", [PYTHON, "-c", DRAWS % "random.random()"], "output"),
]


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "mutant.so"
    argv = ["cc", "-shared", "-fPIC", "-o", str(path), str(CORPUS / "mutant.c")]
    subprocess.run(argv, check=True, timeout=60)
    return str(path)


def found(job, wrap, tmp_path):
    """The names of the differences; a broken watcher must not make the harness itself fail."""
    different, _noise = compare(BY_NAME[job], Setting("tensors"), tmp_path, Natively(), wrap)
    return different


@pytest.mark.parametrize("kind, job, name", IN_PROCESS, ids=lambda v: v)
def test_a_broken_agent_is_found(kind, job, name, library, tmp_path):
    def around(what):
        return lambda argv: ["sh", str(CORPUS / "mutate.sh"), what, library, *argv]

    assert not found(job, around("nothing"), tmp_path)
    different = found(job, around(kind), tmp_path)
    assert any(n.startswith(name) for n in different), different


@pytest.mark.parametrize(
    "job, wrapper, name", AROUND, ids=["control", "regroups", "swallows", "control-random", "draws"]
)
def test_a_broken_launcher_is_found(job, wrapper, name, tmp_path):
    def wrap(argv):
        return [*wrapper, *(argv[1:] if wrapper[0] == PYTHON else argv)]

    different = found(job, wrap, tmp_path)
    if name is None:  # what stands around it is seen by a look at itself, but changes no output
        assert not [n for n in different if not n.startswith("file seen-")]
    else:
        assert any(n.startswith(name) for n in different)
