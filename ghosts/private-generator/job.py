# SPDX-License-Identifier: Apache-2.0
"""The script seeds Python's generator; the data set augments with a private one, which nobody
seeds.
"""

import random

SAMPLES = 96
STEPS = 20
RATE = 0.05


class Readings:
    """Readings with a jitter that is drawn anew at each access."""

    def __init__(self, count):
        self.rows = [[random.uniform(-1, 1) for _ in range(6)] for _ in range(count)]
        self.jitter = random.Random()

    def __getitem__(self, index):
        return [value + self.jitter.gauss(0, 0.05) for value in self.rows[index]]


random.seed(1234)
dataset = Readings(SAMPLES)
weights = [random.uniform(-0.5, 0.5) for _ in range(6)]
for step in range(STEPS):
    row = dataset[random.randrange(SAMPLES)]
    error = sum(w * x for w, x in zip(weights, row)) - row[0]
    weights = [w - RATE * error * x for w, x in zip(weights, row)]
    print(f"step {step} first {row[0]:.6f} error {error:.6f}")
print("result", sum(weights).hex())
