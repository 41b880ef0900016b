#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What watching MPI costs: loops of MPI_Allreduce and of messages from any source (bench/mpi_watch.c)
under `twinrun record` and without it, in turns. The ratio of the medians of each pair of runs; of
these the median and the range of the middle half. Two ranks. Rows `name value unit`. TWINRUN_BUILD:
build folder. --full: more pairs. MPI=openmpi: that one alone.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build")).resolve()
CASES = [
    ("allreduce-16MiB", "tensors", ["allreduce", 16 << 20, 40]),
    ("allreduce-64KiB", "tensors", ["allreduce", 64 << 10, 2000]),
    ("allreduce-4KiB", "tensors", ["allreduce", 4 << 10, 5000]),
    ("any-source-1KiB", "tensors", ["any", 1 << 10, 300]),
    ("any-source-1KiB", "steps", ["any", 1 << 10, 300]),
    ("any-source-64KiB", "steps", ["any", 64 << 10, 100]),
]


def once(command, level, home):
    """Microseconds of one call."""
    watch = []
    if level:
        watch = [BUILD / "cmd" / "twinrun", "record", "-q", "--level", level, "--"]
    env = dict(os.environ, TWINRUN_HOME=home, TWINRUN_MPI="on")
    done = subprocess.run(
        [str(a) for a in [*watch, *command]], capture_output=True, text=True, env=env, cwd=home
    )
    if done.returncode != 0:
        sys.exit(f"bench/mpi_watch.py: exit {done.returncode}: {done.stderr}")
    shutil.rmtree(Path(home) / "runs", ignore_errors=True)
    return float(done.stdout.split()[0])


def main():
    pairs = 21 if "--full" in sys.argv[1:] else 7
    for mpi in os.environ.get("MPI", "openmpi mpich").split():
        program = BUILD / "bench" / f"mpi_watch_{mpi}"
        if not program.exists() or not shutil.which(f"mpirun.{mpi}"):
            print(f"bench/mpi_watch.py: no {mpi}", file=sys.stderr)
            continue
        for name, level, arguments in CASES:
            command = [ROOT / "tests" / "mpi" / "launch", mpi, 2, program, *arguments]
            ratios, plain = [], []
            with tempfile.TemporaryDirectory() as home:
                for pair in range(pairs):
                    order = (None, level) if pair % 2 else (level, None)
                    took = {way: once(command, way, home) for way in order}
                    ratios.append(took[level] / took[None])
                    plain.append(took[None])
            low, middle, high = statistics.quantiles(ratios, n=4)
            row = f"mpi-watch/{mpi}/{name}/{level}"
            print(f"{row} {middle:.3f} of-unwatched [{low:.3f}, {high:.3f}]")
            print(f"{row}/unwatched {statistics.median(plain):.2f} us", flush=True)


if __name__ == "__main__":
    main()
