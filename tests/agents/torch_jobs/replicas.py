# SPDX-License-Identifier: Apache-2.0
"""Ranks that train one small model for six steps; WHAT says what is odd about it."""

import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WHAT = sys.argv[1]
ODD = 1  # the rank that does what WHAT says
AT = 2  # behind this step


def made():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)
    )
    if WHAT == "frozen":
        model[2].bias.requires_grad_(False)
    return model


def wrapped(model):
    if WHAT.startswith("raw"):
        return model
    if WHAT == "ignored":
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["2.bias"])
    ddp = DistributedDataParallel(model, broadcast_buffers=WHAT != "buffers")
    if WHAT == "hook":
        ddp.register_comm_hook(None, lambda _, bucket: _own_mean(bucket))
    return ddp


def _own_mean(bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return work.then(lambda done: done.value()[0] / dist.get_world_size())


def flip(tensor):
    with torch.no_grad():
        tensor.view(torch.int32).view(-1)[1] ^= 1 << 3


def with_closure(ddp, optimizer, x, step):
    """Evaluates, and steps with a function that computes forward and backward, as Lightning does."""

    def closure():
        with ddp.no_sync() if step == AT else contextlib.nullcontext():
            ddp(x).sum().backward()

    with torch.no_grad():
        ddp(x)
    optimizer.step(closure)


def main():
    rank = dist.get_rank()
    torch.manual_seed(rank if WHAT in ("seeds", "raw_seeds") else 0)
    model = made()
    ddp = wrapped(model)
    if WHAT in ("frozen", "ignored"):
        with torch.no_grad():
            model[2].bias.add_(rank)
    if WHAT == "first" and rank == ODD:
        flip(model[0].weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(6):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=generator)
        if WHAT == "closure":
            with_closure(ddp, optimizer, x, step)
            continue
        if WHAT == "no_sync" and step == AT:
            with ddp.no_sync():
                ddp(x).sum().backward()
        elif WHAT == "dropped" and step > AT:
            model(x).sum().backward()
        else:
            ddp(x).sum().backward()
        optimizer.step()
        if step == AT and WHAT == "dropped":
            del ddp
        if step == AT and rank == ODD and WHAT == "flip":
            flip(model[0].weight)
        if step == AT and rank == ODD and WHAT == "statistics":
            flip(model[1].running_mean)
    if rank == 0:
        print(model[0].weight.sum().item())


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
