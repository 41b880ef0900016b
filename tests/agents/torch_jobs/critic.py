# SPDX-License-Identifier: Apache-2.0
"""Two optimizers that do not alternate: four steps of the first to one of the second."""

import torch

torch.manual_seed(0)
first, second = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
fast, slow = (
    torch.optim.SGD(first.parameters(), lr=0.1),
    torch.optim.SGD(second.parameters(), lr=0.1),
)
for i in range(10):
    model, optimizer = (second, slow) if i % 5 == 4 else (first, fast)
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print(first.weight.sum().item(), second.weight.sum().item())
