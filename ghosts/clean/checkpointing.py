# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing, reentrant and not, with dropout inside the recomputed part."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 32)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.1)) for _ in range(4)
        )
        self.last = nn.Linear(32, 1)

    def forward(self, x):
        x = self.first(x)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=i % 2 == 0)
        return self.last(x)


torch.manual_seed(21)
model = Deep()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(20):
    x = torch.randn(32, 10)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
