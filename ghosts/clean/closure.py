# SPDX-License-Identifier: Apache-2.0
"""An ordinary optimizer called with a closure."""

import torch
from torch import nn

torch.manual_seed(16)
x, y = torch.randn(128, 5), torch.randn(128, 1)
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(20):
    loss = optimizer.step(closure)
print(f"loss {loss.item():.6f}")
