# SPDX-License-Identifier: Apache-2.0
"""The sixth part of tests/gpu/run: what watching costs a step at the default level, by
bench/torch_overhead.py, which switches recording on and off in turns in one process.

The bar of issue 20: at most 1% on a transformer of 100 M parameters.
"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = ("mlp", "resnet", "transformer100m")


def check(build, device, figures):
    """False where it could not be measured; None where there is no build."""
    library = os.path.join(build, "agents", "libtwinrun.so")
    if not os.path.exists(library):
        print("overhead: no %s: ./dev build, or --build FOLDER" % library)
        return None
    env = dict(os.environ, TWINRUN_BUILD=os.path.abspath(build), BENCH_DEVICE=device)
    # on the processor it is a trial: one small model, a few rounds
    models = MODELS if device == "cuda" else ("mlp",)
    if device != "cuda":
        env["BENCH_SECONDS"] = "0"
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "bench", "torch_overhead.py"), *models],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=1200,
        check=False,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    rows = [row for row in rows if len(row) == 3 and row[2] != "version"]
    for name, value, unit in rows:
        figures[name] = float(value)
        print("%-45s %12s %s" % (name, value, unit))
    if done.returncode != 0 or not rows:
        print("overhead: exit code %d\n%s" % (done.returncode, done.stderr[-2000:]))
        return False
    return True
