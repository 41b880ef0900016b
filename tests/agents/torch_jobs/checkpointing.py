# SPDX-License-Identifier: Apache-2.0
"""Activation checkpointing, reentrant and not: forwards run again during the backward."""

import torch
from torch.utils.checkpoint import checkpoint


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(torch.relu(self.linear(x)))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Block(), Block()

    def forward(self, x):
        return checkpoint(self.b, checkpoint(self.a, x, use_reentrant=True), use_reentrant=False)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.randn(3, 4, requires_grad=True)).sum().backward()
    optimizer.step()
print(net.a.linear.weight.sum().item())
