# SPDX-License-Identifier: Apache-2.0
"""Two ranks made by torch.multiprocessing.spawn: DDP, and collectives called from Python, one of
them asynchronous.
"""

import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def run(rank, place):
    dist.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4) * (rank + 1)).sum().backward()
        optimizer.step()
    t = torch.ones(2) * rank
    dist.all_reduce(t)
    dist.all_reduce(t, async_op=True).wait()
    gathered = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(gathered, t)
    dist.broadcast(t, 0)
    if rank == 0:
        print(model.module.weight.sum().item(), t.tolist(), [g.tolist() for g in gathered])
    # gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
    time.sleep(0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, (folder + "/meet",), 2)
