# SPDX-License-Identifier: Apache-2.0
"""Two backwards per optimizer step."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for i in range(4):
    model(torch.randn(3, 4)).pow(2).mean().backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
print(model.weight.sum().item())
