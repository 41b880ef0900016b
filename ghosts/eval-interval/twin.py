# SPDX-License-Identifier: Apache-2.0
"""The same job whose evaluation loader has a generator of its own."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--every", type=int, default=3, help="steps between evaluations")
every = parser.parse_args().every

torch.manual_seed(5)
x = torch.randn(768, 16)
y = (x[:, :3].sum(1) > 0).long()
train = DataLoader(TensorDataset(x[:640], y[:640]), batch_size=32, shuffle=True)
held_out = DataLoader(TensorDataset(x[640:], y[640:]), batch_size=64, generator=torch.Generator())
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)


def evaluate():
    model.eval()
    right = 0
    with torch.no_grad():
        for xb, yb in held_out:  # ORIGIN
            right += (model(xb).argmax(1) == yb).sum().item()
    model.train()
    return right / 128


step = 0
for epoch in range(2):
    for xb, yb in train:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % every == 0:
            evaluate()
print(f"final loss {loss.item():.4f} accuracy {evaluate():.3f}")
