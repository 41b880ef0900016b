# SPDX-License-Identifier: Apache-2.0
"""Three data-parallel processes. DDP lays out its buckets anew after the first step; a resumed job
starts with the first layout.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Branches(nn.Module):
    """Two branches; the one that is declared first is used last."""

    def __init__(self, width):
        super().__init__()
        self.late = nn.Linear(width, width)
        self.middle = nn.Linear(width, width)
        self.early = nn.Linear(width, width)
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.late(torch.tanh(self.middle(torch.tanh(self.early(x)))))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
    parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
    args = parser.parse_args()
    torch.manual_seed(31)
    torch.set_num_threads(1)
    rank = dist.get_rank()
    net = Branches(33)
    start = 0
    if args.resume:
        state = torch.load(args.resume)
        net.load_state_dict(state["model"])
        start = state["step"]
    model = DistributedDataParallel(net, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    generator = torch.Generator().manual_seed(50 + rank)
    x = torch.randn(96, 33, generator=generator)
    y = x[:, :4].argmax(1)
    for step in range(start, args.steps):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0 and args.save:
        torch.save({"model": net.state_dict(), "step": args.steps}, args.save)
    if rank == 0:
        print("result", sum(p.double().sum().item() for p in net.parameters()).hex(), flush=True)


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
