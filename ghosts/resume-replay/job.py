# SPDX-License-Identifier: Apache-2.0
"""A resumed trainer that finds its place in the epoch by reading the batches before it and dropping
them.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
args = parser.parse_args()
PER_EPOCH = 12

torch.manual_seed(23)
x = torch.randn(PER_EPOCH * 16, 10)
y = (x[:, :3].sum(1) > 0).long()
model = nn.Sequential(nn.Linear(10, 24), nn.Dropout(0.2), nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = 0
done = 0
generator = None
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    step, generator = state["step"], state["generator"]
    done = step % PER_EPOCH
while step < args.steps:
    loader = DataLoader(
        TensorDataset(x, y),
        batch_size=16,
        shuffle=True,
        generator=torch.Generator().manual_seed(step // PER_EPOCH),
    )
    for i, (xb, yb) in enumerate(loader):
        if i < done:
            continue
        if generator is not None:
            torch.set_rng_state(generator)
            generator = None
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == args.steps:
            break
    done = 0
if args.save:
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "step": step,
            "generator": torch.get_rng_state(),
        },
        args.save,
    )
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())
