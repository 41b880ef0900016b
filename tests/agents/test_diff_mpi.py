# SPDX-License-Identifier: Apache-2.0
"""`mpirun -n N twinrun diff --mpi`: the verdict of one process, whatever the traces are like, under
Open MPI and MPICH; a process that cannot read, sees other runs or dies ends all without a verdict.
"""

import os
import re
import shutil
import subprocess

import pytest
from conftest import FULL

ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "TWINRUN_"))},
    "OMPI_MCA_orte_tmpdir_base": os.environ["OMPI_MCA_orte_tmpdir_base"],
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
RANKS, STEPS = 6, 40

# A library that stands in front of pread and fails it, in one process, for one trace.
FAILING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_it(int fd)
{
    char link[64], path[4096];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *pmi = getenv("PMI_RANK");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strcmp(rank ? rank : pmi ? pmi : "", "1") == 0 && strstr(path, ".twt");
}
ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (is_it(fd) && at > 1024 && getenv("DIE_HERE"))
        raise(SIGKILL);
    if (is_it(fd) && at > 1024) {
        errno = EIO;
        return -1;
    }
    if (!real)
        real = (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    return real(fd, to, n, at);
}
ssize_t pread(int fd, void *to, size_t n, off_t at) __attribute__((alias("pread64")));
"""


@pytest.fixture(params=["openmpi", "mpich"])
def kind(request):
    if not shutil.which(f"mpirun.{request.param}"):
        pytest.skip(f"no {request.param}")
    return request.param


@pytest.fixture
def runs(build, twinrun, home):
    """Makes a run folder of RANKS traces; other: (rank, step) where it has another digest."""
    writer = build / "bench" / "many_ranks"
    if not os.access(writer, os.X_OK):
        pytest.skip("no bench/many_ranks")

    def make(other=None):
        before = set((home / "runs").iterdir()) if (home / "runs").exists() else set()
        assert twinrun("record", "-q", "--", "true").rc == 0
        (run,) = set((home / "runs").iterdir()) - before
        (run / "ranks").mkdir(exist_ok=True)
        place = [str(x) for x in other] if other else []
        subprocess.run([writer, run / "ranks", str(RANKS), str(STEPS), *place], check=True)
        return run

    return make


@pytest.fixture
def diff(build, home, kind):
    """diff(runs, processes, options): (exit code, stdout, stderr); processes 0: without MPI."""

    def call(runs, processes, *options, env=None):
        mpi = [f"mpirun.{kind}", "-n", str(processes)] if processes else []
        command = [build / "cmd" / "twinrun", "diff", *(["--mpi"] if processes else [])]
        done = subprocess.run(
            [*mpi, *command, "--home", home, *options, *runs],
            env={**ENVIRONMENT, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout, done.stderr

    return call


def middle(run, rank):
    (path,) = (run / "ranks").glob(f"{rank}.*.twt")
    return path


def damage(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


ALL = ((1, ("--json",)), (2, ()), (3, ("--json",)))


def expect_alike(diff, pair, word, among=ALL):
    """among: (number of processes, form of the verdict)."""
    alone = {form: diff(pair, 0, *form) for form in ((), ("--json",))}
    for processes, form in ALL if FULL else among:
        assert word in alone[form][1], alone
        shared = diff(pair, processes, *form)
        assert shared[:2] == alone[form][:2], (processes, shared)


def test_verdict_is_that_of_one_process(runs, diff):
    a, b, c = runs(), runs(), runs((4, 17))
    expect_alike(diff, (a, c), "17")
    expect_alike(diff, (a, b), "inputs")  # nothing but losses was recorded: inconclusive
    damage(middle(b, 1), 1500)
    expect_alike(diff, (a, b), "damaged")
    # Each trace is read by one process: how many of them there are says no more of the next ones.
    damage(middle(b, 4), 1500)
    expect_alike(diff, (a, b), "damaged", ALL[1:2])
    middle(b, 2).unlink()
    expect_alike(diff, (a, b), "rank", ALL[2:])
    middle(c, 3).write_bytes(middle(c, 3).read_bytes()[:-700])
    expect_alike(diff, (a, c), "17", ALL[1:2])
    middle(c, 5).write_bytes(b"no trace")
    expect_alike(diff, (a, c), "17", ALL[2:])


def test_trouble_is_that_of_one_process(runs, diff):
    a = runs()
    alone, shared = diff((a, "no-such-run"), 0, "--json"), diff((a, "no-such-run"), 3, "--json")
    assert alone[0] == shared[0] == 2 and alone[1] == shared[1], (alone, shared)
    assert shared[2].count("twinrun: ") == 1, shared
    bisect = diff((a, "no-such-run"), 2, "--bisect")
    assert bisect[0] == 125, bisect


@pytest.mark.parametrize("dies", [False, True])
def test_a_process_that_cannot_read_ends_all(runs, diff, tmp_path, dies):
    source, library = tmp_path / "failing.c", tmp_path / "failing.so"
    source.write_text(FAILING)
    compiled = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(compiled, check=True)
    pair = (runs(), runs())
    for run in pair:  # longer than what is read when they are opened
        for rank in range(RANKS):
            assert middle(run, rank).stat().st_size > 4096
    env = {"LD_PRELOAD": str(library), **({"DIE_HERE": "1"} if dies else {})}
    code, out, err = diff(pair, 3, env=env)
    assert code != 0 and not re.search("^(SAME|DIFFER|INCONCLUSIVE)", out, re.M), (code, out, err)
    if not dies:
        assert code == 2 and "process 1 of 3: " in err and "cannot read" in err, err


def test_needs_a_launcher_and_its_library(build, runs, home, kind):
    a, b = runs(), runs()
    command = [build / "cmd" / "twinrun", "diff", "--mpi", "--home", home, a, b]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 2 and "no launcher of MPI started this process" in done.stderr, done
    other = {"openmpi": "libmpich.so.12", "mpich": "libmpi.so.40"}[kind]
    for library, words in ((other, "its library is another MPI's"), ("libm.so.6", "neither Open")):
        done = subprocess.run(
            [f"mpirun.{kind}", "-n", "2", *command],
            env={**ENVIRONMENT, "TWINRUN_MPI_LIBRARY": library},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode != 0 and done.stdout == "" and words in done.stderr, done
