#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Order-free all-reduce over MPI_Allreduce of the same 1e6 float32, both in turn in one process
(bench/allreduce.c): the median of the pairs' ratios with its 95% interval, at 4 and 8 ranks, for
each MPI that the build has. Rows `name value unit`; ranks beyond the processors share them.
TWINRUN_BUILD: build folder. --full: also three contributions from each rank, also by MPI's own sum
of integers, and 400 pairs in place of 200.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("TWINRUN_BUILD", ROOT / "build"))
ELEMENTS = 1000000


def main():
    full = "--full" in sys.argv[1:]
    print(f"allreduce/processors {os.cpu_count()} count")
    for mpi in ("openmpi", "mpich"):
        program = BUILD / "bench" / f"allreduce_{mpi}"
        if not program.exists() or not shutil.which(f"mpirun.{mpi}"):
            print(
                f"bench/allreduce.py: built without {mpi}, or mpirun.{mpi} is not installed",
                file=sys.stderr,
            )
            continue
        for ranks in (4, 8):
            for contributions in (0, 3) if full else (0,):
                done = subprocess.run(
                    [
                        ROOT / "tests" / "mpi" / "launch",
                        mpi,
                        str(ranks),
                        program,
                        str(ELEMENTS),
                        "400" if full else "200",
                        str(contributions),
                        *(["sum"] if full else []),
                    ],
                    capture_output=True,
                    text=True,
                )
                if done.returncode != 0:
                    sys.exit(
                        f"bench/allreduce.py: {mpi}, {ranks} ranks: exit {done.returncode}: {done.stderr}"
                    )
                for way, ratio, low, high, ms in re.findall(
                    r"(\w+) ([\d.]+) \[([\d.]+), ([\d.]+)\] of-MPI_Allreduce \(([\d.]+) ms\)",
                    done.stdout,
                ):
                    name = f"allreduce/{mpi}/{ranks}-ranks/{contributions or 1}-each/{way}"
                    print(f"{name} {ratio} of-MPI_Allreduce [{low}, {high}]")
                    print(f"{name}/MPI_Allreduce {ms} ms", flush=True)


if __name__ == "__main__":
    main()
