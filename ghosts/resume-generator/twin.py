# SPDX-License-Identifier: Apache-2.0
"""Training that can be resumed at half time; its checkpoint holds the state of the random
generator, too.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
args = parser.parse_args()

torch.manual_seed(13)
x = torch.randn(320, 12)
y = (x[:, :4].sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
start = 0
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["epoch"]
    torch.set_rng_state(state["generator"])

for epoch in range(start, args.epochs):
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.6f}")
if args.save:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": args.epochs}
    state["generator"] = torch.get_rng_state()
    torch.save(state, args.save)
