# SPDX-License-Identifier: Apache-2.0
"""Loader workers by fork, spawn or forkserver; the samples draw from three generators."""

import random
import sys
import threading

import numpy as np
import torch


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.rand(2) + i + random.random() + np.random.rand(), {"name": "n%d" % i}


def main():
    torch.manual_seed(0)
    random.seed(0)
    for epoch in range(2):
        loader = torch.utils.data.DataLoader(
            Data(), batch_size=2, shuffle=True, num_workers=2, multiprocessing_context=sys.argv[1]
        )
        for x, y in loader:
            print(epoch, x.sum().item(), y)
    # those that feed a queue hold its semaphores: CPython warns of these at a quick exit
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(10)


if __name__ == "__main__":
    main()
