# SPDX-License-Identifier: Apache-2.0
"""How long 40 runs take on four nodes of a Slurm, beside the ideal: a quarter of what 40 runs take
one after the other; and how many of them were lost. The Slurm is that of the tests (Debian:
slurm-wlm), one run at a time a node.

    python3 bench/engine_slurm.py [--runs N] [BUILD]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "agents"))
import slurm_here  # noqa: E402

NODES, JOB_S = 4, 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("build", nargs="?", default=ROOT / "build", type=Path)
    asked = parser.parse_args()
    build = asked.build.resolve()
    job = [sys.executable, "-c", f"import time; time.sleep({JOB_S}); print('done')"]
    cluster = slurm_here.started(cpus=1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, **cluster.environment, "TWINRUN_HOME": folder + "/home"}

            def check(*options):
                began = time.monotonic()
                command = [build / "cmd" / "twinrun", "check", "-q", "--json", "--all", *options]
                done = subprocess.run(
                    [*command, "--", *job],
                    cwd=folder,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    check=False,
                )
                return time.monotonic() - began, json.loads(done.stdout)

            one = check("--runs", "2")[0] / 2
            took, verdict = check("--runs", str(asked.runs), "--on", "slurm")
    finally:
        cluster.stop()
    ideal = asked.runs * one / NODES
    print(
        f"one run here {one:.2f} s; {asked.runs} runs on {NODES} nodes {took:.1f} s, ideal "
        f"{ideal:.1f} s: {took / ideal:.2f}x; {verdict['outcome']}"
    )
    print(*(n for n in verdict["notes"] if n.startswith("the runs were made by")), sep="\n")


if __name__ == "__main__":
    main()
