# SPDX-License-Identifier: Apache-2.0
"""Gated classifier; the gate's bias is set to zero."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Gate(nn.Module):
    """Scales each feature by a factor between 0 and 1."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return x * torch.sigmoid(x * self.weight + self.bias)


def token_statistics():
    """Tables of which tokens are one object: freed before the model is built, they leave blocks
    full of addresses in the heap.
    """
    tokens = [f"token{i}" for i in range(977)]
    tables = [torch.tensor([id(tokens[i * j % 977]) for i in range(256)]) for j in range(400)]
    return sum(len(table.unique()) for table in tables)


torch.manual_seed(3)
print("distinct tokens", token_statistics())
model = nn.Sequential(nn.Linear(20, 512), Gate(512), nn.Linear(512, 5))
x = torch.randn(640, 20)
y = (x[:, :5] + 0.1 * torch.randn(640, 5)).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(2):
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
