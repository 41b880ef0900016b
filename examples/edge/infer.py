"""A small network on a device at the edge: it scores 200 readings.

python infer.py               in single precision
python infer.py --integers    weights and readings as integers of 8 bits, sums as integers
"""

import argparse

import torch
import twinrun
from twinrun import seeds

args = argparse.ArgumentParser()
args.add_argument("--integers", action="store_true")
args = args.parse_args()

torch.set_num_threads(1)


def normal(name, rows, columns):  # torch.randn gives other bits on another instruction set
    draws = seeds.normal(seeds.seed(7, name), range(rows * columns))
    return torch.tensor(draws, dtype=torch.float32).view(rows, columns)


x = normal("readings", 200, 64)
w1, w2 = normal("first", 64, 128) / 8, normal("second", 128, 10) / 11


def as_integers(t):
    scale = t.abs().max() / 127
    return torch.round(t / scale).to(torch.int64), scale


def product(a, b):
    if not args.integers:
        return a @ b
    (a, sa), (b, sb) = as_integers(a), as_integers(b)
    return (a @ b).to(torch.float64) * (sa.double() * sb.double())


with torch.no_grad():
    for part in x.split(50):
        twinrun.record("data:readings", part)
        twinrun.record("weight:first", w1)
        hidden = product(part, w1).clamp(min=0)
        if not args.integers:
            hidden = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:])
        twinrun.record("activation:hidden", hidden)
        twinrun.record("activation:scores", product(hidden, w2))
        twinrun.step()
