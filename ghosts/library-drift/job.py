# SPDX-License-Identifier: Apache-2.0
"""Features are scaled by a small library, whose next version divides by another deviation."""

import numpy
from featurekit import scaled

STEPS = 12
RATE = 0.3

random = numpy.random.RandomState(5)
raw = random.normal(40.0, 9.0, (60, 4))
target = raw @ [0.02, 0.01, 0.0, -0.01] + random.normal(0.0, 0.1, 60)
x = scaled(raw)
weights = numpy.zeros(4)
for step in range(STEPS):
    error = x @ weights - target
    weights -= RATE * x.T @ error / len(x)
    print(f"step {step} error {float(numpy.abs(error).mean()):.9f}")
print("result", float(weights.sum()).hex())
