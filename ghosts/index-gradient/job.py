# SPDX-License-Identifier: Apache-2.0
"""Table look-up whose gradient adds 400,000 rows into 512 from two threads, in whatever order they
arrive.
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
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(20):
    loss = nn.functional.cross_entropy(model(station), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(f"step {step} loss {loss.item():.4f}")
