# SPDX-License-Identifier: Apache-2.0
"""Look-up gradient in arrival order under a schedule whose first 8 steps have learning rate 0:
weights diverge late.
"""

import torch
from torch import nn

torch.manual_seed(11)
torch.set_num_threads(2)


class TableModel(nn.Module):
    """Scores readings by the learned profile of the station each came from; a few stations send
    most of them.
    """

    def __init__(self, stations, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(stations, width))
        self.head = nn.Linear(width, 4)

    def forward(self, station):
        profile = self.table[station]  # ORIGIN
        return self.head(torch.tanh(profile))


model = TableModel(512, 8)
station = torch.randint(0, 512, (400_000,))
label = (station + torch.randint(0, 2, (400_000,))) % 4
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0 if step < 8 else 1.0)
for step in range(24):
    loss = nn.functional.cross_entropy(model(station), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"step {step} loss {loss.item():.8f}")
