#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `twinrun digest FILE` is on a large safetensors file, against one thread of SHA-256 over
the same bytes, in turns.

Usage: digest.py [--full]     256 MiB; with --full 2 GiB
Environment: TWINRUN_BUILD, the build folder (default: build beside bench).

Prints rows `name value unit`: medians of 5 rounds. The file is in the page cache. twinrun makes two
digests, of the file and of its tensors; with --tensors the second.
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


def main():
    build = os.environ.get("TWINRUN_BUILD") or os.path.join(HERE, "..", "build")
    size = 2 << 30 if "--full" in sys.argv else 256 << 20
    with tempfile.TemporaryDirectory(prefix="twinrun-bench-") as folder:
        path = os.path.join(folder, "model.safetensors")
        write(path, size)
        ours, tensors, theirs = [], [], []
        for _ in range(5):
            began = time.perf_counter()
            plain(path)
            middle = time.perf_counter()
            subprocess.run(
                [os.path.join(build, "cmd", "twinrun"), "digest", path],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            both = time.perf_counter()
            subprocess.run(
                [os.path.join(build, "cmd", "twinrun"), "digest", "--tensors", path],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            theirs.append(middle - began)
            ours.append(both - middle)
            tensors.append(time.perf_counter() - both)
    print("digest/safetensors %.2f GB/s" % (size / statistics.median(ours) / 1e9))
    print(
        "digest/safetensors %.3f of-one-thread-SHA-256"
        % statistics.median(a / b for a, b in zip(ours, theirs))
    )
    print("digest/safetensors/tensors %.2f GB/s" % (size / statistics.median(tensors) / 1e9))
    print(
        "digest/safetensors/tensors %.3f of-one-thread-SHA-256"
        % statistics.median(a / b for a, b in zip(tensors, theirs))
    )
    print(
        "digest/safetensors/peak %.1f MiB"
        % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    )


if __name__ == "__main__":
    main()
