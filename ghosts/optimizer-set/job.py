# SPDX-License-Identifier: Apache-2.0
"""Shared parameters are made unique with a set before they are clipped and updated: its order
follows their addresses.
"""

import torch
from torch import nn

torch.manual_seed(43)
torch.set_num_threads(1)
tower = nn.ModuleList([nn.Linear(24, 24) for _ in range(12)])
head = nn.Linear(24, 1)
unique = list(set([*tower.parameters(), *head.parameters()]))
x = torch.randn(64, 24)
y = x.sum(1, keepdim=True)
optimizer = torch.optim.SGD(unique, lr=0.05, momentum=0.9)
for step in range(20):
    hidden = x
    for layer in tower:
        hidden = hidden + torch.tanh(layer(hidden))
    loss = nn.functional.mse_loss(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    squares = torch.zeros(())
    for p in unique:
        squares += p.grad.square().sum()
    scale = 1 / (1 + squares.sqrt())
    for p in unique:
        p.grad *= scale
    optimizer.step()
print(
    "result", sum(p.double().sum().item() for p in [*tower.parameters(), *head.parameters()]).hex()
)
