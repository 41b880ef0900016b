# SPDX-License-Identifier: Apache-2.0
"""An endless stream of samples from workers that live on across epochs."""

import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        generator = torch.Generator().manual_seed(worker.seed % 1000)
        while True:
            x = torch.randn(6, generator=generator)
            yield {"x": x, "y": x.sum(0, keepdim=True), "worker": worker.id}


def main():
    torch.manual_seed(32)
    loader = DataLoader(
        Stream(), batch_size=8, num_workers=2, persistent_workers=True, prefetch_factor=4
    )
    model = nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for batch in itertools.islice(loader, 10):
            loss = nn.functional.huber_loss(model(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
