#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `twinrun diff` of two runs of many ranks takes: to its first look and to its verdict,
and the memory that it needs. Each rank records one digest a step; one rank differs from the middle
on.

Usage: many_ranks.py [--full] [--ranks N] [--steps M] [--mpi KIND]

512 ranks of 10,000 steps; --full: 4,096 (11 GB of scratch space). --mpi openmpi|mpich: also as an
MPI program of one and of two processes.
Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Prints rows `name value unit`.
"""

import argparse
import glob
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build"))
TWINRUN = os.path.join(BUILD, "cmd", "twinrun")


def make(home, ranks, steps):
    """Two runs of `true`, with the traces of many ranks put into their folders."""
    for _ in range(2):
        command = [TWINRUN, "record", "-q", "--home", home, "--", "true"]
        subprocess.run(command, cwd=home, check=True)
    runs = sorted(glob.glob(os.path.join(home, "runs", "*")))
    for i, run in enumerate(runs):
        folder = os.path.join(run, "ranks")
        os.makedirs(folder, exist_ok=True)
        other = [str(ranks * 3 // 4), str(steps // 2)] if i else []
        writer = os.path.join(BUILD, "bench", "many_ranks")
        subprocess.run([writer, folder, str(ranks), str(steps), *other], check=True)
    return runs


def diff(home, runs, *mpi):
    """(seconds to the first look or None, seconds to the verdict, what it said). mpi: the launcher
    that it is started by.
    """
    began, looked = time.perf_counter(), None
    with subprocess.Popen(
        [*mpi, TWINRUN, "diff", *(["--mpi"] if mpi else []), "--home", home, *runs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stderr:
            if "first look" in line:
                looked = time.perf_counter() - began
        said = process.stdout.read()
    return looked, time.perf_counter() - began, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--mpi", choices=["openmpi", "mpich"])
    asked = parser.parse_args()
    ranks = asked.ranks or (4096 if asked.full else 512)
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as home:
        runs = make(home, ranks, asked.steps)
        looked, took, said = diff(home, runs)
        for processes in (1, 2) if asked.mpi else ():
            _, alike, also = diff(home, runs, "mpirun." + asked.mpi, "-n", str(processes))
            if also != said:
                sys.exit("many_ranks: %d processes say something else:\n%s" % (processes, also))
            print("diff_mpi_%d %.2f s" % (processes, alike))
    wanted = "step %d · rank %d " % (asked.steps // 2, ranks * 3 // 4)
    if wanted not in said:
        sys.exit("many_ranks: the verdict names another place than %s:\n%s" % (wanted, said))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("diff_ranks %d ranks" % ranks)
    if looked is not None:
        print("diff_first_look %.2f s" % looked)
    print("diff_verdict %.2f s" % took)
    print("diff_memory %.0f MiB" % (used.ru_maxrss / 1024))


if __name__ == "__main__":
    main()
