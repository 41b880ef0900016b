# SPDX-License-Identifier: Apache-2.0
"""Two processes average their gradients by hand. With --own-seeds each draws its weights from a
seed of its own, and nobody broadcasts those of rank 0.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def replica(net):
    """Each rank goes on with the weights that it drew."""
    return net


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--own-seeds", action="store_true", help="seed each rank differently")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(71 + (rank if args.own_seeds else 0))
    net = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 4))
    model = replica(net)
    generator = torch.Generator().manual_seed(90 + rank)
    x = torch.randn(48, 16, generator=generator)
    y = x[:, :4].argmax(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= ranks
        optimizer.step()
    total = torch.stack([p.double().sum() for p in net.parameters()]).sum()
    dist.all_reduce(total)
    if rank == 0:
        print("result", total.item().hex(), flush=True)


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
