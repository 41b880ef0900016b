# SPDX-License-Identifier: Apache-2.0
"""A server, rank 0, takes one message of each of three workers in each step, from whoever comes.

    torch_order_job.py FOLDER ORDER WAY,WAY,... STEPS

ORDER: "free", or the workers in the order in which they may send ("321"), one behind the other:
then the server lets each begin once the message before was received, in the ways of which that can
be. The order of arrival is printed. WAY: how the server receives. The parent forks the ranks, so
that PyTorch is loaded once.
"""

import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS, TURN = 4, 7
TAG = dict.fromkeys(("recv", "irecv", "posted", "turned", "bodies", "group", "never"), 0)
TAG["tag"], TAG["large"] = 5, 5000


def all_posted(turned):
    """They are complete behind a barrier, which no worker reaches before it has sent."""
    parts = [torch.empty(3) for _ in range(RANKS - 1)]
    works = [dist.irecv(part) for part in parts]
    assert all(isinstance(work, dist.Work) for work in works)
    dist.barrier()
    for work in reversed(works) if turned else works:
        work.wait()
    return [int(part[0]) for part in parts]


def with_bodies():
    """What comes second is asked for by name, and is larger."""
    found = []
    for _ in range(RANKS - 1):
        found.append(dist.recv(torch.empty(3)))
        body = torch.empty(1000)
        dist.recv(body, found[-1])
        assert int(body[0]) == found[-1]
    return found


def with_named():
    """A receive from rank 1 behind an open one that could take its message."""
    one, two, three = (torch.empty(3) for _ in range(3))
    works = dist.irecv(one), dist.irecv(two, 1), dist.irecv(three)
    for work in works:
        work.wait()
    assert int(two[0]) == 1
    return [int(one[0]), int(three[0])]


def serve(order, way, group):
    """One step of the server: who sent the messages, in the order in which they came."""
    if way in ("posted", "turned"):
        return all_posted(way == "turned")
    if way == "bodies":
        return with_bodies()
    if way == "named":
        return with_named()
    found, part = [], torch.empty(3)
    for worker in order or range(RANKS - 1 - (way == "never")):
        if order:
            dist.send(torch.zeros(1), worker, tag=TURN)
        if way == "irecv":
            dist.irecv(part).wait()
            found.append(int(part[0]))
        else:
            found.append(dist.recv(part, None, group if way == "group" else None, TAG[way]))
    return found


def work(rank, order, way, group):
    if way == "never" and rank == 3:
        return
    mine = torch.full((3,), float(rank))
    if way == "named":
        for _ in range(3 - rank):  # two of rank 1, one of rank 2
            dist.send(mine, 0)
        return
    if order and way not in ("posted", "turned", "bodies"):
        dist.recv(torch.zeros(1), 0, tag=TURN)
    dist.send(mine, 0, group=group if way == "group" else None, tag=TAG[way])
    if way in ("posted", "turned"):
        dist.barrier()
    if way == "bodies":
        dist.send(torch.full((1000,), float(rank)), 0)


def main(rank, meet, order, ways, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=RANKS)
    group, sources = dist.new_group(list(range(RANKS))), []
    for _ in range(steps):
        for way in ways:
            if rank == 0:
                sources += serve(order, way, group)
            else:
                work(rank, order, way, group)
            dist.barrier()
    if rank == 0:
        print(*sources, flush=True)
    dist.barrier()
    time.sleep(0.5)  # gloo's thread drops its last work first: else PyTorch 2.13 may abort
    dist.destroy_process_group()


if __name__ == "__main__":
    folder, order, ways, steps = sys.argv[1:]
    order = [] if order == "free" else [int(worker) for worker in order]
    given = tempfile.mktemp(dir=folder), order, ways.split(","), int(steps)
    mp.start_processes(main, args=given, nprocs=RANKS, start_method="fork")
