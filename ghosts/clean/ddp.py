# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel under torchrun with a DistributedSampler."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    torch.manual_seed(27)
    x = torch.randn(512, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            loss = nn.functional.mse_loss(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f}", flush=True)


dist.init_process_group("gloo")
main()
# gloo's thread drops its last work first: where Python ends before that, PyTorch 2.13 aborts
time.sleep(0.5)
dist.destroy_process_group()
