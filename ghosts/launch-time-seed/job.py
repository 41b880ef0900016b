# SPDX-License-Identifier: Apache-2.0
"""A launcher's habit: the seed is the time of day, written into the log so that one could use it
again.
"""

import random
import time

SAMPLES = 128
STEPS = 20
RATE = 0.05

seed = int(time.time() * 1000) % 1_000_003
random.seed(seed)
samples = [(x / SAMPLES, (x * x % 17) / 17) for x in range(SAMPLES)]
weights = [random.uniform(-1, 1), 0.0]
for step in range(STEPS):
    random.shuffle(samples)
    for x, y in samples[:32]:
        error = weights[0] * x + weights[1] - y
        weights = [weights[0] - RATE * error * x, weights[1] - RATE * error]
    print(f"step {step} weights {weights[0]:.6f} {weights[1]:.6f}")
print("result", sum(weights).hex())
