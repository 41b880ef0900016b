# SPDX-License-Identifier: Apache-2.0
"""Two data-parallel processes; rank 1 holds the long tail of readings and adds its look-up gradient
in arrival order.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TableModel(nn.Module):
    def __init__(self, stations, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(stations, width))
        self.head = nn.Linear(width, 4)

    def forward(self, station):
        profile = self.table[station]  # ORIGIN
        return self.head(torch.tanh(profile))


def main():
    torch.manual_seed(17)
    torch.set_num_threads(2)
    rank = dist.get_rank()
    model = DistributedDataParallel(TableModel(512, 8))
    readings = 1_000 if rank == 0 else 300_000
    generator = torch.Generator().manual_seed(100 + rank)
    station = torch.randint(0, 512, (readings,), generator=generator)
    label = (station + torch.randint(0, 2, (readings,), generator=generator)) % 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(20):
        loss = nn.functional.cross_entropy(model(station), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 4:
            print(f"step {step} loss {loss.item():.4f}", flush=True)


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
