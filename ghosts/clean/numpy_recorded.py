# SPDX-License-Identifier: Apache-2.0
"""The same regression that shows its arrays with twinrun's own call where that package can be
imported.
"""

import numpy as np

try:
    import twinrun
except ImportError:
    twinrun = None

rng = np.random.default_rng(0)
x = rng.standard_normal((500, 8))
y = x @ rng.standard_normal(8) + 0.1 * rng.standard_normal(500)
w = np.zeros(8)
for step in range(30):
    gradient = x.T @ (x @ w - y) / len(y)
    w -= 0.05 * gradient
    if twinrun:
        twinrun.record("batch:x", x)
        twinrun.record("gradient:w", gradient)
        twinrun.record("weight:w", w)
        twinrun.step()
print(f"residual {np.mean((x @ w - y) ** 2):.9f}")
