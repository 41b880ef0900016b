#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the replay of an order costs: a parameter server (bench/mpi_watch.c) under `twinrun run
--replay-order` and under `twinrun record`, in turns. The ratio of the median steps of each pair of
runs; of these the median and the range of the middle half. Rows `name value unit`, and whether each
replay held. TWINRUN_BUILD: build folder. --full: more pairs. MPI=openmpi: that one alone.
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
RANKS = 3
CASES = [("server", ["server", 1200, 300]), ("posted", ["posted", 1200, 300])]


def once(command, home, *how):
    """Microseconds of one step, and what twinrun said."""
    words = [BUILD / "cmd" / "twinrun", *how, "--", *command]
    env = dict(os.environ, TWINRUN_HOME=home, TWINRUN_MPI="on")
    done = subprocess.run(
        [str(w) for w in words], capture_output=True, text=True, env=env, cwd=home
    )
    if done.returncode != 0:
        sys.exit(f"bench/mpi_replay.py: exit {done.returncode}: {done.stderr}")
    return float(done.stdout.split()[0]), done.stderr


def measure(row, command, pairs):
    ratios, recorded, held = [], [], 0
    with tempfile.TemporaryDirectory() as home:
        once(command, home, "record", "-q")
        (first,) = (Path(home) / "runs").iterdir()
        replay = ("run", "--pin", "hash-seed", "--replay-order", first)
        for pair in range(pairs):
            ways = {"record": ("record", "-q"), "replay": replay}
            order = list(ways) if pair % 2 else list(reversed(ways))
            took = {way: once(command, home, *ways[way]) for way in order}
            ratios.append(took["replay"][0] / took["record"][0])
            recorded.append(took["record"][0])
            held += "order replayed: " in took["replay"][1]
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"{row} {middle:.3f} of-recorded [{low:.3f}, {high:.3f}]")
    print(f"{row}/recorded {statistics.median(recorded):.2f} us")
    print(f"{row}/held {held} of-{pairs}-runs", flush=True)


def main():
    pairs = 21 if "--full" in sys.argv[1:] else 7
    for mpi in os.environ.get("MPI", "openmpi mpich").split():
        program = BUILD / "bench" / f"mpi_watch_{mpi}"
        if not program.exists() or not shutil.which(f"mpirun.{mpi}"):
            print(f"bench/mpi_replay.py: no {mpi}", file=sys.stderr)
            continue
        for name, arguments in CASES:
            command = [ROOT / "tests" / "mpi" / "launch", mpi, RANKS, program, *arguments]
            measure(f"mpi-replay/{mpi}/{name}", command, pairs)


if __name__ == "__main__":
    main()
