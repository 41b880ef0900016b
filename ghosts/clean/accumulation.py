# SPDX-License-Identifier: Apache-2.0
"""Gradient accumulation: four backward passes for each optimizer step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(20)
x = torch.randn(640, 10)
y = x.sum(1, keepdim=True).sin()
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for i, (xb, yb) in enumerate(loader):
    loss = nn.functional.mse_loss(model(xb), yb) / 4
    loss.backward()
    if i % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
print(f"loss {loss.item():.6f}")
