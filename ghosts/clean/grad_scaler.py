# SPDX-License-Identifier: Apache-2.0
"""bfloat16 autocast with a GradScaler on the CPU; step 5 overflows on purpose, so its optimizer
step is skipped.
"""

import torch
from torch import nn

torch.manual_seed(18)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(20):
    x = torch.randn(64, 16)
    y = x[:, :4].argmax(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    if step == 5:
        loss = loss * float("inf")
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"loss {loss.item():.6f} scale {scaler.get_scale()}")
