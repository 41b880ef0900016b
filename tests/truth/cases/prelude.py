"""What every case's job begins with: rec(name, numbers...), and SECOND, true in the second run.

The state file lies outside the job's folder, so that it is no file of the job.
"""

import array
import os
import sys
import time

import twinrun

SECOND = os.path.exists(os.environ["CASE_STATE"])
if "CASE_CHILD" not in os.environ:
    open(os.environ["CASE_STATE"], "a").close()


def rec(name, *values, code="d"):
    twinrun.record(name, array.array(code, values))


def steps(n, change=None, at=2):
    """A small training of n steps; `change` is added to the weight after step `at`."""
    w = 1.0
    for s in range(n):
        rec("batch:x", s, s + 0.5)
        grad = 0.1 * (s % 3 + 1)
        rec("gradient:w", grad)
        w -= grad
        if change is not None and s == at and SECOND:
            w += change
        rec("weight:w", w)
        twinrun.step()
    return w


__all__ = ["SECOND", "array", "os", "rec", "steps", "sys", "time", "twinrun"]
