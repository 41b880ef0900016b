# SPDX-License-Identifier: Apache-2.0
"""Half precision with a loss scaler whose scale is not in the checkpoint: after a resume it is too
large again, and steps are skipped.
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=26)
parser.add_argument("--save", metavar="FILE", help="write a checkpoint at the end")
parser.add_argument("--resume", metavar="FILE", help="go on from this checkpoint")
args = parser.parse_args()

torch.manual_seed(29)
x = torch.randn(256, 12)
y = 30 * x[:, :4].sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
start = 0
if args.resume:
    state = torch.load(args.resume)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
for step in range(start, args.steps):
    chosen = torch.arange(step * 32, step * 32 + 32) % 256
    with torch.amp.autocast("cpu", dtype=torch.float16):
        guess = model(x[chosen])
    loss = nn.functional.mse_loss(guess.float(), y[chosen])
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
if args.save:
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "step": args.steps,
        },
        args.save,
    )
print("result", sum(p.double().sum().item() for p in model.parameters()).hex())
