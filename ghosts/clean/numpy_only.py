# SPDX-License-Identifier: Apache-2.0
"""Linear regression in NumPy alone: no PyTorch anywhere."""

import numpy as np

rng = np.random.default_rng(0)
x = rng.standard_normal((500, 8))
y = x @ rng.standard_normal(8) + 0.1 * rng.standard_normal(500)
w = np.zeros(8)
for step in range(200):
    w -= 0.05 * x.T @ (x @ w - y) / len(y)
print(f"residual {np.mean((x @ w - y) ** 2):.9f}")
