# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that keeps weights and optimizer; the schedule of the learning rate begins anew
after a resume.
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
args = parser.parse_args()

torch.manual_seed(23)
x = torch.randn(256, 12)
y = x[:, :4].sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 20))
start = 0
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
for step in range(start, args.steps):
    chosen = torch.arange(step * 32, step * 32 + 32) % 256
    loss = nn.functional.mse_loss(model(x[chosen]), y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
if args.save:
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "step": args.steps,
        },
        args.save,
    )
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())
