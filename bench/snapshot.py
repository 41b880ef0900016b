#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `twinrun snapshot` is: large files against `openssl speed sha256` on all cores in turns,
and many small files.

Usage: snapshot.py [--full]     512 MiB and 10,000 files; with --full 4 GiB and 100,000
Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Prints rows `name value unit`: medians of 5 rounds. The files are in the page cache as far as it
holds them.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FULL = "--full" in sys.argv
TWINRUN = os.path.join(
    os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build"), "cmd", "twinrun"
)
CORES = len(os.sched_getaffinity(0))


def snapshot(folder, *options):
    """Seconds, and processor seconds, of one look at the folder."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        [TWINRUN, "snapshot", "--json", "--force", "-q", folder, *options],
        check=True,
        capture_output=True,
    )
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return time.perf_counter() - began, cpu, json.loads(done.stdout)


def openssl():
    """Bytes per second of one second of SHA-256 on all cores, by the wall clock."""
    out = subprocess.run(
        [
            "openssl",
            "speed",
            "-elapsed",
            "-seconds",
            "1",
            "-bytes",
            "16384",
            "-multi",
            str(CORES),
            "sha256",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return float(re.findall(r"^sha256\s+([\d.]+)k", out, re.M)[-1]) * 1000


def large(folder):
    files, each = (8, 512 << 20) if FULL else (8, 64 << 20)
    block = os.urandom(1 << 20)
    for i in range(files):
        with open(os.path.join(folder, str(i)), "wb") as f:
            for _ in range(each >> 20):
                f.write(block)
    os.sync()
    snapshot(folder)
    ratios, speeds = [], []
    for _ in range(5):
        reference = openssl()
        seconds, _, _ = snapshot(folder, "--paranoid")
        reference = (reference + openssl()) / 2
        speeds.append(files * each / seconds / 1e9)
        ratios.append(files * each / seconds / reference)
    print("snapshot/large %.2f GB/s" % statistics.median(speeds))
    print("snapshot/large %.2f of-openssl-speed-on-%d-cores" % (statistics.median(ratios), CORES))


def small(folder):
    count = 100000 if FULL else 10000
    for i in range(count):
        if i % 1000 == 0:
            os.mkdir(os.path.join(folder, str(i // 1000)))
        with open(os.path.join(folder, str(i // 1000), str(i)), "wb") as f:
            f.write(b"%d" % i * 100)
    time.sleep(0.1)
    first = [snapshot(folder, "--paranoid")[0] for _ in range(5)]
    again = [snapshot(folder) for _ in range(6)][1:]
    assert again[-1][2]["read_files"] == 0, again[-1][2]
    print("snapshot/small %.0f files/s" % (count / statistics.median(first)))
    print("snapshot/unchanged %.2f s" % statistics.median(a[0] for a in again))
    print("snapshot/unchanged %.0f files/s" % (count / statistics.median(a[0] for a in again)))


def main():
    for measure in (large, small):
        with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as folder:
            os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
            os.mkdir(os.path.join(folder, "data"))
            data = os.path.join(folder, "data")
            measure(data)


if __name__ == "__main__":
    main()
