#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `twinrun digest FILE` is on a large safetensors file, against one thread of SHA-256 over
the same bytes, in turns.

Usage: digest.py [--full]     256 MiB; with --full 2 GiB
Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Prints rows `name value unit`: medians of 5 rounds, and the processor time of a GB. The file is in the
page cache. twinrun digests its tensors, by all processors; with --file its bytes as well.
"""

import hashlib
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TENSORS = 8


def write(path, size):
    each = size // TENSORS
    header = json.dumps(
        {
            "t%d" % i: {
                "dtype": "F32",
                "shape": [each // 4],
                "data_offsets": [i * each, (i + 1) * each],
            }
            for i in range(TENSORS)
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        block = os.urandom(1 << 20)
        for _ in range(size >> 20):
            f.write(block)


def plain(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)


def timed(command):
    """Seconds by the clock and of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    twinrun = os.path.join(build, "cmd", "twinrun")
    size = 2 << 30 if "--full" in sys.argv else 256 << 20
    ways = {"digest/safetensors": ["--tensors"], "digest/safetensors/file": ["--file"]}
    theirs, ours = [], {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as folder:
        path = os.path.join(folder, "model.safetensors")
        write(path, size)
        for _ in range(5):
            began = time.perf_counter()
            plain(path)
            theirs.append(time.perf_counter() - began)
            for name, options in ways.items():
                ours[name].append(timed([twinrun, "digest", *options, path]))
    for name in ways:
        took = [wall for wall, _ in ours[name]]
        processors = statistics.median(used for _, used in ours[name])
        ratio = statistics.median(a / b for a, b in zip(took, theirs))
        print("%s %.2f GB/s" % (name, size / statistics.median(took) / 1e9))
        print("%s %.3f of-one-thread-SHA-256" % (name, ratio))
        print("%s %.2f GB-a-processor-second" % (name, size / processors / 1e9))
    print(
        "digest/safetensors/peak %.1f MiB"
        % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    )


if __name__ == "__main__":
    main()
