# SPDX-License-Identifier: Apache-2.0
"""One model, two optimizers: embeddings by SparseAdam on sparse gradients, the rest by SGD."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 8, sparse=True)
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.embed(ids).mean(1))


torch.manual_seed(25)
model = Model()
sparse = torch.optim.SparseAdam(model.embed.parameters(), lr=0.01)
dense = torch.optim.SGD(model.out.parameters(), lr=0.1)
for step in range(20):
    ids = torch.randint(0, 100, (16, 5))
    loss = nn.functional.cross_entropy(model(ids), ids[:, 0] % 2)
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
print(f"loss {loss.item():.6f}")
