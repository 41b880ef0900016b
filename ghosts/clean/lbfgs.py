# SPDX-License-Identifier: Apache-2.0
"""LBFGS: several forward and backward passes inside one optimizer step."""

import torch
from torch import nn

torch.manual_seed(15)
x = torch.randn(200, 5)
y = torch.sin(x.sum(1, keepdim=True))
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(10):
    loss = optimizer.step(closure)
print(f"loss {loss.item():.6f}")
