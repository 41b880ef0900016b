# SPDX-License-Identifier: Apache-2.0
"""A small CNN on a few hundred images of Fashion-MNIST: an ordinary PyTorch script that knows
nothing of twinrun.

Grey levels go through a learned table (256 levels x 4 channels) before the convolutions. The
table's gradient is a sum over many duplicate indices: with two threads or more, PyTorch adds them
in the order in which they arrive.

usage: cnn.py [--steps N] [--batch N] [--lr RATE] [--device cpu|cuda] [--deterministic] [--data
FOLDER] [--checkpoint FILE]
"""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_idx(path):
    """Reads an IDX file of unsigned bytes (the format of MNIST): magic, sizes as big-endian u32,
    then the values.
    """
    with open(path, "rb") as f:
        raw = f.read()
    if raw[:3] != b"\x00\x00\x08":
        raise SystemExit(f"{path}: expected an IDX file of unsigned bytes")
    sizes = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    values = torch.frombuffer(bytearray(raw[4 + 4 * len(sizes) :]), dtype=torch.uint8)
    return values.reshape(sizes)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.levels = nn.Parameter(torch.randn(256, 4) * 0.5)
        self.conv1 = nn.Conv2d(4, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.head = nn.Linear(16 * 7 * 7, 10)

    def forward(self, pixels):
        x = self.levels[pixels].permute(0, 3, 1, 2)
        x = torch.relu(nn.functional.max_pool2d(self.conv1(x), 2))
        x = torch.relu(nn.functional.max_pool2d(self.conv2(x), 2))
        return self.head(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument(
        "--data", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
    )
    parser.add_argument("--checkpoint")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(args.deterministic)
    images = read_idx(os.path.join(args.data, "train-images-idx3-ubyte")).long()
    labels = read_idx(os.path.join(args.data, "train-labels-idx1-ubyte")).long()
    loader = DataLoader(
        TensorDataset(images, labels), batch_size=args.batch, shuffle=True, drop_last=True
    )
    model, loss_of = Net().to(args.device), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    step = 0
    while step < args.steps:
        for pixels, target in loader:
            optimizer.zero_grad()
            loss = loss_of(model(pixels.to(args.device)), target.to(args.device))
            loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(f"step {step:3d}  loss {loss.item():.6f}", flush=True)
            step += 1
            if step == args.steps:
                break
    if args.checkpoint:
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
            args.checkpoint,
        )


if __name__ == "__main__":
    main()
