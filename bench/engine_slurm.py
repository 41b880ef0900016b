# SPDX-License-Identifier: Apache-2.0
"""How long 40 runs take on four nodes of a Slurm, beside the ideal: a quarter of what 40 runs take
one after the other. The Slurm is that of the tests (Debian: slurm-wlm), one run at a time a node.

    python3 bench/engine_slurm.py [BUILD]
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "agents"))
import slurm_here  # noqa: E402

RUNS, NODES, JOB_S = 40, 4, 5


def main():
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    job = [sys.executable, "-c", f"import time; time.sleep({JOB_S}); print('done')"]
    cluster = slurm_here.started(cpus=1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, **cluster.environment, "TWINRUN_HOME": folder + "/home"}

            def check(*options):
                began = time.monotonic()
                command = [build / "cmd" / "twinrun", "check", "-q", "--all", *options, "--", *job]
                subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, check=False)
                return time.monotonic() - began

            one = check("--runs", "2") / 2
            took = check("--runs", str(RUNS), "--on", "slurm")
    finally:
        cluster.stop()
    ideal = RUNS * one / NODES
    print(
        f"one run here {one:.2f} s; {RUNS} runs on {NODES} nodes {took:.1f} s, ideal {ideal:.1f} s: "
        f"{took / ideal:.2f}x"
    )


if __name__ == "__main__":
    main()
