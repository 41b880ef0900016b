"""A model in NumPy, left in model.npy.

python train.py              from a seed
python train.py --careless   somebody forgot the seed
"""

import sys

import numpy as np
import twinrun

draw = np.random.default_rng(1)
x = draw.normal(size=(400, 8))
y = x @ draw.normal(size=8) + 0.3 * draw.normal(size=400)
random = np.random.default_rng(None if "--careless" in sys.argv else 7)
w = random.normal(size=8)
for _ in range(40):
    rows = random.integers(0, 400, size=16)
    w -= 0.05 * x[rows].T @ (x[rows] @ w - y[rows]) / 16
    twinrun.record("data:rows", rows)
    twinrun.record("weight:w", w)
    twinrun.step()
np.save("model.npy", w)
print(f"{np.mean((x @ w - y) ** 2):.6f}")
