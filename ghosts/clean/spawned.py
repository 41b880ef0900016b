# SPDX-License-Identifier: Apache-2.0
"""Two processes started by torch.multiprocessing.spawn, gradients averaged by hand over gloo."""

import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def train(rank, world, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    torch.manual_seed(26)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(20):
        x = torch.randn(32, 8, generator=generator)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
    if rank == 0:
        print(f"loss {loss.item():.6f}", flush=True)
    # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
    time.sleep(0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(2, folder + "/store"), nprocs=2)
