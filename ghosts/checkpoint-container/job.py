# SPDX-License-Identifier: Apache-2.0
"""Regression whose checkpoint also stores when it was written: the file's bytes differ, its tensors
do not.
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
x = torch.randn(512, 10)
y = x @ torch.randn(10, 1) + 0.05 * torch.randn(512, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
for epoch in range(2):
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    print(f"epoch {epoch} loss {loss.item():.4f}")
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
state["saved_at"] = time.time()  # CAUSE
torch.save(state, "checkpoint.pt")
