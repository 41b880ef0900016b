# SPDX-License-Identifier: Apache-2.0
"""A checkpoint in the middle of an epoch: weights, optimizer and generators are kept, the sampler's
place is not.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=24)
parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
args = parser.parse_args()
PER_EPOCH = 16

torch.manual_seed(19)
x = torch.randn(PER_EPOCH * 16, 10)
y = (x[:, :3].sum(1) > 0).long()
model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = 0
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
place = 0
while step < args.steps:
    epoch = step // PER_EPOCH
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))[16 * place :]
    loader = DataLoader(
        TensorDataset(x, y),
        batch_size=16,
        sampler=order.tolist(),
        generator=torch.Generator().manual_seed(epoch),
    )
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == args.steps:
            break
    place = 0
if args.save:
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, args.save
    )
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())
