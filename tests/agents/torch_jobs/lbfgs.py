# SPDX-License-Identifier: Apache-2.0
"""A closure: several backwards inside one step."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)


def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
print(model.weight.sum().item())
