"""NumPy: recorded arrays, a result file of each kind, printed results beside times."""

import json
import os
import time

import numpy as np
import twinrun

begin = time.time()
rng = np.random.default_rng(3)
w = rng.normal(size=(4, 3)).astype(np.float32)
for step in range(6):
    x = rng.normal(size=(5, 4)).astype(np.float32)
    with twinrun.scope("layer"):
        twinrun.record("batch:x", x)
        y = x @ w
        twinrun.record("activation:y", y)
    w = w - np.float32(0.01) * (x.T @ y)
    twinrun.record("weight:w", w)
    twinrun.record("weight:b", w[0].astype(np.float64))
    twinrun.step()
    accuracy, correct = abs(float(y.mean())) % 1, int(abs(w).sum() * 100)
    print("epoch %d accuracy %.4f num_correct=%d" % (step, accuracy, correct), flush=True)
np.save("weights.npy", w)
np.savez("all.npz", w=w, x=x)
with open("metrics.json", "w") as f:
    json.dump({"accuracy": float(w.sum()), "steps": 6}, f)
end = time.time()
print("done in %.2fs by pid %d, finished at %d" % (end - begin, os.getpid(), int(end)))
