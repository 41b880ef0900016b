# SPDX-License-Identifier: Apache-2.0
"""A small model under Adam on any number of ranks of gloo: whole (one process), under DDP (`ddp`,
`no_sync`: two backward passes a step, of which the first is not averaged), or with gradients that the
job reduces by itself (`by_hand`). Each rank has its share of one batch. All numbers are small powers
of two times small integers, and so are the gradients: their sum over ranks is exact in any order.

worlds.py KIND [CHANGE]: of the optimizer state that the last step leaves an element is changed, by
rank 1 alone (`one`) or by all ranks (`all`). `late`: the gradients of the last step are others, and
the job writes to those of the steps before it (what they are, so that the weights are as usual).
"""

import os
import sys
import time

import torch
import torch.distributed as dist

KIND, CHANGE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
STEPS = 3
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def fill(model):
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            numbers = torch.arange(parameter.numel()) * (3 + 2 * i) % 7 - 3
            parameter.copy_(numbers.reshape(parameter.shape) / 8)


def change(optimizer, *_):
    optimizer.left -= 1
    if optimizer.left == 0 and (CHANGE == "all" or RANK == 1):
        first = optimizer.param_groups[0]["params"][0]
        optimizer.state[first]["exp_avg"].view(-1)[3] += 1


def main():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2))
    fill(model)
    for parameter in model[1].parameters():
        parameter.requires_grad_(False)  # so gradients are made of numbers that stay exact
    ddp = model
    if KIND != "whole":
        dist.init_process_group("gloo")
    if KIND in ("ddp", "no_sync"):
        ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model[0].parameters(), lr=0.125)
    optimizer.left = STEPS
    if CHANGE in ("one", "all"):
        optimizer.register_step_post_hook(change)
    batch = (torch.arange(64) % 5 - 2).reshape(8, 8) / 4
    for step in range(STEPS):
        optimizer.zero_grad()
        mine = (batch + step)[RANK::RANKS]
        # DDP takes the mean over ranks
        scale = RANKS / 8 if ddp is not model else 1 / 8
        if CHANGE == "late" and step + 1 == STEPS:
            scale *= 2
        if KIND == "no_sync":
            half = len(mine) // 2
            with ddp.no_sync():
                (ddp(mine[:half]).sum() * scale).backward()
            mine = mine[half:]
        (ddp(mine).sum() * scale).backward()
        if CHANGE == "late" and step + 1 < STEPS:
            for parameter in model[0].parameters():
                parameter.grad.mul_(1)
        if KIND == "by_hand":
            for parameter in model[0].parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
    if KIND != "whole":
        dist.barrier()
        # gloo's thread drops its last work first; where Python ends before, PyTorch 2.13 aborts
        time.sleep(0.5)
        dist.destroy_process_group()


main()
