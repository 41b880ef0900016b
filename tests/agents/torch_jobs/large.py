# SPDX-License-Identifier: Apache-2.0
"""A weight and a momentum too large to be recorded whole in every step."""
import torch

torch.manual_seed(0)
model = torch.nn.Linear(512, 513)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 512)).pow(2).mean().backward()
    optimizer.step()
print(model.weight.sum().item())
