# SPDX-License-Identifier: Apache-2.0
"""Products in bfloat16 where the agreed precision is float32: the gradients part slowly."""

import argparse
import contextlib

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--mixed", action="store_true", help="products in bfloat16")
mixed = parser.parse_args().mixed

torch.manual_seed(19)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
x = torch.randn(64, 16)
y = x[:, :4].argmax(1)
for step in range(30):
    with torch.autocast("cpu", torch.bfloat16) if mixed else contextlib.nullcontext():
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step} loss {loss.item():.6f}")
