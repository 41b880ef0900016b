"""Two ranks, each a process of its own."""

import os
import subprocess
import sys

CODE = """
import array, os, twinrun
rank = int(os.environ["RANK"])
w = array.array("d", [1.0 + rank, 2.0])
for step in range(5):
    twinrun.record("batch:x", array.array("d", [step + 10.0 * rank]))
    w = array.array("d", [v * 0.9 + step for v in w])
    twinrun.record("weight:w", w)
    twinrun.step()
"""
ranks = []
for r in range(2):
    env = dict(os.environ, RANK=str(r), WORLD_SIZE="2")
    ranks.append(subprocess.Popen([sys.executable, "-c", CODE], env=env))
sys.exit(max(p.wait() for p in ranks))
