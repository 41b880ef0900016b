# SPDX-License-Identifier: Apache-2.0
"""Features are made by a pool of processes and collected with imap_unordered, which gives what is
ready first.
"""

import multiprocessing

CHUNKS = 20
WORKERS = 4
RATE = 0.02


def features(chunk):
    """The work of a chunk depends on its contents, as with real documents."""
    total = 0
    for k in range(2_000 + 7_000 * (chunk * 5 % 4)):
        total = (total * 31 + k + chunk) % 10_007
    return [(total * (k + 1)) % 97 / 97 for k in range(64)]


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        dataset = list(pool.imap_unordered(features, range(CHUNKS)))
    weight = 0.5
    for step, chunk in enumerate(dataset):
        for value in chunk:
            weight -= RATE * (weight - value) * value
        print(f"step {step} weight {weight:.9f}")
    print("result", weight.hex())
