"""A model of which version A and version B differ in one number, in NumPy. Prints the loss on data
that it has not seen, for each seed, and leaves the last one's weights in model.npy.

    python train.py --rate 0.05 7
"""

import argparse

import numpy as np
import twinrun

args = argparse.ArgumentParser()
args.add_argument("--rate", type=float, required=True)
args.add_argument("seeds", type=int, nargs="+")
args = args.parse_args()

draw = np.random.default_rng(1)
x = draw.normal(size=(400, 8))
y = x @ draw.normal(size=8) + 0.3 * draw.normal(size=400)
training, held_out = slice(0, 300), slice(300, 400)


def train(seed):
    random = np.random.default_rng(seed)
    w = random.normal(size=8)
    for _ in range(60):
        rows = random.integers(0, 300, size=16)
        error = x[rows] @ w - y[rows]
        w -= args.rate * x[rows].T @ error / 16
        twinrun.record("data:rows", rows)
        twinrun.record("weight:w", w)
        twinrun.step()
    return w


for seed in args.seeds:
    w = train(seed)
    print(f"{np.mean((x[held_out] @ w - y[held_out]) ** 2):.6f}")
np.save("model.npy", w)
