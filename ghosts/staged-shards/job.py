# SPDX-License-Identifier: Apache-2.0
"""Shards are staged to memory by several threads; training takes them in the order in which the
folder lists them.
"""

import os
import tempfile
import threading

SHARDS = 18
RATE = 0.03


def stage(folder, first):
    """Writes every third shard. Their order of creation is that of the threads."""
    for i in range(first, SHARDS, 3):
        with open(os.path.join(folder, f"shard-{i:03}"), "wb") as f:
            for k in range(40):
                f.write(bytes((i * 41 + k + j * 3) % 253 for j in range(500)))


with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    threads = [threading.Thread(target=stage, args=(folder, first)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weight = 0.2
    for step, name in enumerate(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as f:
            pixels = f.read(400)
        for value in pixels:
            weight -= RATE * (weight - value / 255) * (value / 255)
        print(f"step {step} {len(pixels)} pixels weight {weight:.9f}")
print("result", weight.hex())
