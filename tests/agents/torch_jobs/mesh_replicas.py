# SPDX-License-Identifier: Apache-2.0
"""Ranks in a mesh of two by two, `dp` by `shard`, that train one small model for four steps; WHAT
says how, and what is odd about it.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

WHAT = sys.argv[1]
ODD = 2  # the rank that does what WHAT says
AT = 1  # behind this step


def flip(tensor):
    with torch.no_grad():
        tensor._local_tensor.view(torch.int32).view(-1)[1] ^= 1 << 3


class Placed(torch.nn.Module):
    """One weight that the job places by hand."""

    def __init__(self, mesh, placements):
        super().__init__()
        whole = torch.arange(16.0).reshape(4, 4) / 16
        placed = distribute_tensor(whole, mesh, placements)
        if WHAT == "partial":  # a term of a sum on each rank, which is lawful
            term = torch.full((4, 4), float(dist.get_rank()))
            placed = DTensor.from_local(term, mesh, placements, run_check=False)
        self.weight = torch.nn.Parameter(placed)

    def forward(self, x):
        return x @ self.weight._local_tensor.sum() if x.ndim == 0 else x * 1.0


def placed(mesh):
    """Steps on gradients that are given: what counts is how the weight lies."""
    kinds = {"partial": [Partial(), Partial()], "both": [Replicate(), Replicate()]}
    model = Placed(mesh, kinds.get(WHAT, [Replicate(), Shard(0)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    for step in range(4):
        model(torch.ones(4))
        model.weight.grad = torch.ones_like(model.weight) if WHAT != "partial" else None
        optimizer.step()
        if WHAT == "both" and step == AT and dist.get_rank() == ODD:
            flip(model.weight)


def sharded(mesh):
    torch.manual_seed(dist.get_rank() if WHAT == "seeds" else 0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4, generator=generator)).sum().backward()
        optimizer.step()
        if WHAT == "flip" and step == AT and dist.get_rank() == ODD:
            flip(model[0].weight)


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "shard"))
(placed if WHAT in ("partial", "both") else sharded)(mesh)
dist.barrier()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
