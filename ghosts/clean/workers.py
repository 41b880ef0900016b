# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers that augment their samples; the way workers are started is the argument: fork,
spawn, forkserver.
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        x = torch.full((8,), i / 256) + 0.1 * torch.randn(8)
        return x, torch.tensor([i / 256])


def main():
    torch.manual_seed(22)
    loader = DataLoader(
        Noisy(), batch_size=16, shuffle=True, num_workers=2, multiprocessing_context=sys.argv[1]
    )
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
