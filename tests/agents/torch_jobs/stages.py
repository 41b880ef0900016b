# SPDX-License-Identifier: Apache-2.0
"""A pipeline of two stages on two ranks of gloo, which knows its role from a mesh and never from its
number: the ranks stand in the mesh in the order that is asked for.

stages.py 0,1|1,0 [PLACE-WHOSE-WEIGHT-IS-ANOTHER-ONE-FROM-STEP-1-ON]
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

ORDER = [int(n) for n in sys.argv[1].split(",")]
OTHER = int(sys.argv[2]) if len(sys.argv) > 2 else -1


def main():
    dist.init_process_group("gloo")
    mesh = DeviceMesh("cpu", torch.tensor(ORDER).reshape(2, 1), mesh_dim_names=("pp", "dp"))
    stage = mesh.get_coordinate()[0]
    peer = ORDER[1 - stage]
    model = torch.nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.arange(16).reshape(4, 4) % (3 + stage) / 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    for step in range(3):
        optimizer.zero_grad()
        if stage == 0:
            y = model(torch.arange(8.0).reshape(2, 4) / 8 + step)
            dist.send(y.detach(), dst=peer)
            gradient = torch.empty(2, 4)
            dist.recv(gradient, src=peer)
            y.backward(gradient)
        else:
            x = torch.empty(2, 4)
            dist.recv(x, src=peer)
            x.requires_grad_()
            loss = model(x).sum()
            loss.backward()
            dist.send(x.grad, dst=peer)
        if stage == OTHER and step == 1:
            with torch.no_grad():
                model.weight[0, 0] += 1
        optimizer.step()
    dist.destroy_process_group()


main()
