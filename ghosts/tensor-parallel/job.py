# SPDX-License-Identifier: Apache-2.0
"""A network whose second layer adds over its inputs, which ranks share: with tensor parallelism
over two ranks that sum is made of two parts, with one rank it is whole.
"""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

INNER = 48


def main():
    torch.set_num_threads(1)
    torch.manual_seed(29)
    net = nn.Sequential(nn.Linear(24, INNER), nn.Tanh(), nn.Linear(INNER, 4))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(32, 24)
    y = x[:, :4].argmax(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    whole = [p.full_tensor().double().sum() for p in model.parameters()]
    if dist.get_rank() == 0:
        print("result", sum(whole).item().hex(), flush=True)
    dist.barrier()


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
