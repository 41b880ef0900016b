# SPDX-License-Identifier: Apache-2.0
"""Augmentation in the loader's worker processes: each has a generator of its own, so their number
changes what is drawn.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Jittered(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(count, 8, generator=generator)
        self.y = (self.x[:, 0] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i] + 0.1 * torch.randn(8), self.y[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tag", default="a", help="name of the run in the tracker")
    args = parser.parse_args()
    torch.manual_seed(41)
    loader = DataLoader(Jittered(128), batch_size=16, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("result", sum(p.double().sum().item() for p in model.parameters()).hex())


if __name__ == "__main__":
    main()
