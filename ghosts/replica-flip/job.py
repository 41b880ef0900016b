# SPDX-License-Identifier: Apache-2.0
"""Three data-parallel processes. In one of them a bit of a weight flips in memory, once: neither
PyTorch nor DDP notices, and the replicas are no longer equal. Which bit, and when, no setting of
the job controls; the processor's own counter stands for that.
"""

import ctypes
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 12
QUIET = 3
HIDDEN = 24


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, HIDDEN)
        self.outer = nn.Linear(HIDDEN, 4)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def chance():
    """Mixed: the counter's low bits are not all in use."""
    x = time.monotonic_ns() * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return (x ^ x >> 32) >> 3


def flip(weight):
    place = chance() % weight.numel()
    word = ctypes.c_uint32.from_address(weight.data_ptr() + 4 * place)
    word.value ^= 1 << 12 + chance() % 11


def main(rank):
    torch.manual_seed(5)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + rank)
    faulty = rank == 1
    when = QUIET + chance() % (STEPS - QUIET - 1)
    for step in range(STEPS):
        x = torch.randn(32, 8, generator=generator)
        y = torch.randint(0, 4, (32,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if faulty and step == when:
            flip(model.module.inner.weight)
    if rank == 0:
        print("result", model.module.inner.weight.sum().item().hex(), flush=True)


dist.init_process_group("gloo")
main(dist.get_rank())
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
