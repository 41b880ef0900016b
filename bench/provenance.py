#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What provenance adds to a run: how long the job waits for it before it starts, and how much
longer a whole run takes, in a repository of 2,000 files.

Usage: provenance.py [--full]     9 rounds; with --full 25
Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Prints rows `name value unit`. The job is `true`; the plain run is `twinrun record` in a folder
outside of any repository and without git in PATH.
"""

import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def repository(folder):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for i in range(2000):
        path = os.path.join(folder, "d%d" % (i % 40), "f%d.py" % i)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("x = %d\n" % i * 20)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(git + words, cwd=folder, check=True)
    with open(os.path.join(folder, "d0", "f0.py"), "a") as f:
        f.write("# changed\n")


def main():
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    rounds = 25 if "--full" in sys.argv else 9
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as scratch:
        code, plain, home = (os.path.join(scratch, n) for n in ("code", "plain", "home"))
        os.mkdir(code)
        os.mkdir(plain)
        repository(code)
        program = os.path.join(os.path.abspath(build), "cmd", "twinrun")
        took = {code: [], plain: []}
        for _ in range(rounds):
            for folder in (code, plain):
                began = time.perf_counter()
                subprocess.run(
                    [program, "record", "-q", "--home", home, "--", "true"], cwd=folder, check=True
                )
                took[folder].append(time.perf_counter() - began)
        waits = []
        for path in glob.glob(os.path.join(home, "runs", "*", "provenance.json")):
            with open(path) as f:
                p = json.load(f)
            if p["code"]["commit"]:
                waits.append(p["before_job"]["ms"])
    print("provenance/before-the-job %.0f ms" % statistics.median(waits))
    print("provenance/before-the-job/slowest %.0f ms" % max(waits))
    print(
        "provenance/whole-run %.3f of-one-outside-a-repository"
        % statistics.median(a / b for a, b in zip(took[code], took[plain]))
    )


main()
