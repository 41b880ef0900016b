# SPDX-License-Identifier: Apache-2.0
"""Batches of DataLoader(in_order=False) as they come: results_loader_job.py. The first batch of each
worker waits until the other worker has made its second one.
"""

import multiprocessing
import sys

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

slow = int(sys.argv[1])  # of two workers
others = multiprocessing.get_context("fork").Semaphore(0)


def wait_or_go():
    """The slow one makes nothing before the other one has made three."""
    if get_worker_info().id == slow:
        for _ in range(3):
            others.acquire()
        for _ in range(3):
            others.release()
    else:
        others.release()


class Map(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, number):
        wait_or_go()
        return number, get_worker_info().id


class Stream(IterableDataset):
    def __iter__(self):
        for number in range(5 + get_worker_info().id):
            wait_or_go()
            yield number, get_worker_info().id


def collate(batch):
    return batch


for data in (Map(), Stream()):
    loader = DataLoader(
        data,
        batch_size=2,
        num_workers=2,
        prefetch_factor=3,
        in_order=False,
        collate_fn=collate,
        multiprocessing_context="fork",
    )
    print(*loader)
