# SPDX-License-Identifier: Apache-2.0
"""Three data-parallel processes. Each computes with as many threads as the settings file says for
its rank: where one has another number, the sums of its products are split otherwise.
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", default="1,1,1", help="threads of each rank")
    args = parser.parse_args()
    rank = dist.get_rank()
    torch.set_num_threads(int(args.threads.split(",")[rank]))
    torch.manual_seed(53)
    model = DistributedDataParallel(nn.Linear(40, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    generator = torch.Generator().manual_seed(20 + rank)
    x = torch.randn(20_000, 40, generator=generator)
    y = torch.randn(20_000, 8, generator=generator)
    for step in range(6):
        size = (model(x) - y).square().mean()  # one number of 160,000, added by all threads
        loss = torch.log(size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        print("result", sum(p.double().sum().item() for p in model.parameters()).hex(), flush=True)


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
