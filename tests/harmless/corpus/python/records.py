# SPDX-License-Identifier: Apache-2.0
"""A job that calls twinrun itself: it must run the same when nobody watches."""

import array
import os
import sys

sys.path.append(os.environ["CORPUS"])
sys.path.append(os.path.join(os.environ["SOURCE"], "python"))
import seen
import twinrun

total = 0.0
for step in range(50):
    values = array.array("d", [step * i / 7 for i in range(100)])
    twinrun.record("weight:w", values)
    total += sum(values)
    twinrun.step()
print(total.hex())
seen.look("end")
