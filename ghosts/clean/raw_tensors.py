# SPDX-License-Identifier: Apache-2.0
"""Autograd on plain tensors: no module, no optimizer, no loader."""

import torch

torch.manual_seed(10)
w1 = (0.3 * torch.randn(6, 20)).requires_grad_()
w2 = (0.3 * torch.randn(20, 1)).requires_grad_()
x = torch.randn(256, 6)
y = x[:, :2].prod(1, keepdim=True)
for step in range(30):
    loss = ((torch.relu(x @ w1) @ w2 - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w1 -= 0.05 * w1.grad
        w2 -= 0.05 * w2.grad
    w1.grad = w2.grad = None
print(f"loss {loss.item():.6f}")
