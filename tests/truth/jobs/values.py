"""Batches, weights, a loss and equal names in one step, recorded by the job itself."""

import array
import os

import twinrun

w = array.array("d", [1.0, -2.0, 3.0, 0.5])
for step in range(8):
    grad = array.array("d", [0.0] * 4)
    for micro in range(3):  # a name that comes three times in a step, with other contents each time
        x = array.array("d", [step + micro * 0.25 + k for k in range(4)])
        twinrun.record("batch:x", x)
        grad = array.array("d", [g + (a - b) for g, a, b in zip(grad, w, x)])
        twinrun.record("gradient:w", grad)
    w = array.array("d", [a - 0.05 * g for a, g in zip(w, grad)])
    if os.environ.get("NUDGE") == str(step):  # a change for tests that need runs that differ
        w[0] += 1e-12
    twinrun.record("weight:w", w)
    twinrun.record("loss:loss", array.array("d", [sum(v * v for v in w)]))
    twinrun.step()
    print("step %d loss %.6f [pid %d]" % (step, sum(v * v for v in w), os.getpid()), flush=True)
