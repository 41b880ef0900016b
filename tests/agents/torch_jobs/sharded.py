# SPDX-License-Identifier: Apache-2.0
"""A small model on any number of ranks of gloo: whole (one process, no wrapper), or with its
parameters cut by fully_shard (`fsdp`), by tensor parallelism (`tp`), or by two ranks of each (`both`). All numbers are small powers
of two times small integers and every rank sees the same batch, so that sums over ranks are exact in
any order and the weights are truly the same for every number of ranks.

sharded.py whole|fsdp|tp|both [STEPS [RANK-THAT-CHANGES-ONE-ELEMENT [HIDDEN]]]
"""

import os
import sys

import torch
import torch.distributed as dist

KIND, STEPS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
CHANGED = int(sys.argv[3]) if len(sys.argv) > 3 else -1
HIDDEN = int(sys.argv[4]) if len(sys.argv) > 4 else 32


def fill(parameter, by):
    """Small whole numbers times 1/8."""
    with torch.no_grad():
        numbers = torch.arange(parameter.numel()) * by % 7 - 3
        parameter.copy_(numbers.reshape(parameter.shape) / 8)


def wrapped(model):
    if KIND == "whole":
        return model
    dist.init_process_group("gloo")
    from torch.distributed.device_mesh import init_device_mesh

    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    if KIND == "both":
        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
    if KIND != "fsdp":
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, mesh["tensor"] if KIND == "both" else mesh, plan)
    if KIND == "tp":
        return model
    if KIND == "both":
        mesh = mesh["data"]
    from torch.distributed.fsdp import fully_shard

    fully_shard(model[0], mesh=mesh)
    fully_shard(model[2], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, 16),
        torch.nn.Linear(16, 10),
    )
    for i, parameter in enumerate(model.parameters()):
        fill(parameter, 3 + 2 * i)
    model = wrapped(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125, momentum=0.5)
    batch = (torch.arange(32) % 5 - 2).reshape(4, 8) / 4
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(batch).sum() / 8
        loss.backward()
        if CHANGED >= 0 and int(os.environ.get("RANK", "0")) == CHANGED and step == STEPS - 1:
            with torch.no_grad():
                weight = model[0].weight
                getattr(weight, "_local_tensor", weight)[0, 1] += 1
        optimizer.step()
    if KIND != "whole":
        dist.destroy_process_group()


main()
