# SPDX-License-Identifier: Apache-2.0
"""A configuration in which "seed: -1" means a fresh seed at each launch."""

import torch
from torch import nn

SEED = -1

if SEED < 0:
    torch.seed()
else:
    torch.manual_seed(SEED)
encoder = nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Dropout(0.1), nn.Linear(28, 3))
x = torch.linspace(-1, 1, 64 * 14).reshape(64, 14)
y = torch.arange(64) % 3
optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
for step in range(15):
    loss = nn.functional.cross_entropy(encoder(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("result", sum(p.double().sum().item() for p in encoder.parameters()).hex())
