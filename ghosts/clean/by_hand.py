# SPDX-License-Identifier: Apache-2.0
"""A module whose weights are updated by hand, without an optimizer."""

import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
x = torch.randn(256, 6)
y = x[:, :1] * x[:, 1:2]
for step in range(25):
    loss = nn.functional.mse_loss(model(x), y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.1 * parameter.grad)
print(f"loss {loss.item():.6f}")
