# SPDX-License-Identifier: Apache-2.0
"""PyTorch in several processes. usage: processes.py workers|ddp"""

import gc
import os
import sys
import threading

import torch

sys.path[:0] = [os.environ["CORPUS"], os.path.join(os.environ["CORPUS"], "torch")]
import seen
from run import digest


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.rand(2) + i, torch.utils.data.get_worker_info().id


def settle():
    """Until all pipes of ended workers are closed: what is opened next then has the same number
    each time.
    """
    gc.collect()  # they are in cycles, and go when the collector comes by
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(20)  # one that feeds a queue closes the queue's pipe when it ends
    gc.collect()


def workers():
    for how in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(
            Data(), 4, shuffle=True, num_workers=2, multiprocessing_context=how
        )
        for x, who in loader:
            print(digest(x), who.tolist())
        settle()


def rank(number, port):
    torch.manual_seed(0)
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE="2"
    )
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(3, 4) + number).sum().backward()
        optimizer.step()
    with open("rank%d" % number, "w") as f:
        f.write(digest(model, torch.get_rng_state()))
    torch.distributed.barrier()
    del model
    torch.distributed.destroy_process_group()


def ddp():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.start_processes(rank, (port,), nprocs=2, start_method="fork")
    print(open("rank0").read(), open("rank1").read())


if __name__ == "__main__":
    torch.manual_seed(4)
    {"workers": workers, "ddp": ddp}[sys.argv[1]]()
    settle()
    seen.look("end")
