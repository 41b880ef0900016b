# SPDX-License-Identifier: Apache-2.0
"""Rank 0 is a parameter server: it adds the gradients of two workers in the order in which their
messages arrive.
"""

import time

import torch
import torch.distributed as dist
from torch import nn


def flat(parameters):
    return torch.cat([p.grad.reshape(-1) for p in parameters])


def main():
    torch.manual_seed(37)
    torch.set_num_threads(1)
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    model = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 3))
    parameters = list(model.parameters())
    size = sum(p.numel() for p in parameters)
    generator = torch.Generator().manual_seed(60 + rank)
    x = torch.randn(64, 20, generator=generator)
    y = x[:, :3].argmax(1)
    optimizer = torch.optim.SGD(parameters, lr=0.3)
    for step in range(12):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        total = flat(parameters)
        if rank == 0:
            part = torch.empty(size)
            for source in range(1, workers + 1):
                dist.recv(part)
                total += part
        else:
            dist.send(total, 0)
        dist.broadcast(total, 0)
        place = 0
        for p in parameters:
            p.grad.copy_(total[place : place + p.numel()].view_as(p) / (workers + 1))
            place += p.numel()
        optimizer.step()
    if rank == 0:
        print("result", sum(p.double().sum().item() for p in parameters).hex(), flush=True)
    dist.barrier()


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
