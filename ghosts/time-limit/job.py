# SPDX-License-Identifier: Apache-2.0
"""A hyper-parameter trial that may train for so many milliseconds: how many steps that is, the
machine decides.
"""

import time

BUDGET = 0.06
RATE = 0.001

samples = [(i % 31 / 31, i % 13 / 13) for i in range(400)]
slope = bias = 0.0
steps = 0
end = time.time() + BUDGET
while time.time() < end:
    x, y = samples[steps * 7 % len(samples)]
    error = slope * x + bias - y
    slope, bias = slope - RATE * error * x, bias - RATE * error
    steps += 1
print(f"steps {steps}")
print("result", (slope + bias).hex())
