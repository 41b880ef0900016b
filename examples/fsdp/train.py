# SPDX-License-Identifier: Apache-2.0
"""A model whose blocks are cut over the ranks by fully_shard (FSDP2), over gloo."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16))

    def forward(self, x):
        return x + self.inner(x)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(16, 1))
    for block in model[:2]:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    draws = torch.Generator().manual_seed(rank)
    if "--own-dropout" in sys.argv and rank == 1:
        torch.seed()  # other dropout than on rank 0, and another one in each run
    for step in range(6):
        x = torch.randn(8, 16, generator=draws)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
