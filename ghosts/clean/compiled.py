# SPDX-License-Identifier: Apache-2.0
"""torch.compile around a small model (needs a C++ compiler)."""

import torch
from torch import nn

torch.manual_seed(24)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    x = torch.randn(32, 8)
    loss = nn.functional.mse_loss(compiled(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
