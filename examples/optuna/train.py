"""One configuration of a sweep: a logistic regression by stochastic gradients, in NumPy.

    SEED=7 python train.py --rate 0.1

The seed is no argument: twinrun takes a command for a configuration, and the seed is none.
"""

import argparse
import os

import numpy as np
import twinrun
from twinrun import seeds

args = argparse.ArgumentParser()
args.add_argument("--rate", type=float, required=True)
args = args.parse_args()

SAMPLES, FEATURES, STEPS, BATCH = 160, 12, 30, 8

# The data are the same for all configurations: their seed has nothing to do with the trial's.
data = seeds.seed(1, "data")
x = np.array(seeds.normal(data, range(SAMPLES * FEATURES))).reshape(SAMPLES, FEATURES)
noise = np.array(seeds.normal(seeds.seed(1, "noise"), range(SAMPLES)))
y = (x[:, 0] - x[:, 1] + 0.5 * noise > 0).astype(np.float64)
training, held_out = slice(0, 80), slice(80, SAMPLES)

random = np.random.default_rng(int(os.environ["SEED"]))
w = random.normal(size=FEATURES)


def loss_of(part):
    logit = x[part] @ w
    return np.mean(np.logaddexp(0, logit) - y[part] * logit)


for _ in range(STEPS):
    rows = random.integers(0, 80, size=BATCH)
    error = 1 / (1 + np.exp(-(x[rows] @ w))) - y[rows]
    w -= args.rate * (x[rows].T @ error) / BATCH
    twinrun.record("weight:w", w)
    twinrun.record("loss:held out", np.float64(loss_of(held_out)))
    twinrun.step()
print(f"rate={args.rate} loss={loss_of(held_out):.6f}")
