# SPDX-License-Identifier: Apache-2.0
"""some_steps.py RANKS KIND: ranks that reduce nothing, and of which all hold the same. KIND first:
weights in the first step alone. KIND later: optimizer state from the second step on. Both are a
little off in each number of ranks.
"""

import os
import subprocess
import sys

import numpy as np
import twinrun

ranks, kind = int(sys.argv[1]), sys.argv[2]
rank = int(os.environ.get("RANK", "0"))
if "RANK" not in os.environ and ranks > 1:
    each = [dict(os.environ, RANK=str(i), WORLD_SIZE=str(ranks)) for i in range(ranks)]
    sys.exit(
        max(
            [p.wait() for p in [subprocess.Popen([sys.executable, *sys.argv], env=e) for e in each]]
        )
    )
first = kind == "first"
for step in range(3):
    x = np.full(1, step + 1.0)  # one number is measured without a sketch
    if not first or step == 0:
        twinrun.record("weight:w", x if first else x + 1e-9 * ranks)
    if first or step > 0:
        twinrun.record("moment:m", x + 1e-9 * ranks)
    twinrun.step()
