# SPDX-License-Identifier: Apache-2.0
"""Shards are read by a pool of threads and used in the order in which the reads finish."""

import os
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor, as_completed

SHARDS = 24
WORKERS = 6
RATE = 0.01


def write_shards(folder):
    for i in range(SHARDS):
        numbers = bytes((i * 37 + k * k * 11) % 251 for k in range(60_000))
        with open(os.path.join(folder, f"shard-{i:03}"), "wb") as f:
            f.write(zlib.compress(numbers))


def read_shard(path):
    with open(path, "rb") as f:
        pixels = zlib.decompress(f.read())
    return [value / 255 for value in pixels[:512]]


with tempfile.TemporaryDirectory() as cache:
    write_shards(cache)
    paths = [os.path.join(cache, f"shard-{i:03}") for i in range(SHARDS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        reads = [pool.submit(read_shard, path) for path in paths]
        shards = [done.result() for done in as_completed(reads)]

weight = 0.1
for step, shard in enumerate(shards):
    for value in shard:
        weight -= RATE * (weight * value - value * value)
    print(f"step {step} mean {sum(shard) / len(shard):.6f} weight {weight:.9f}")
print("result", weight.hex())
