# SPDX-License-Identifier: Apache-2.0
"""Meta-learning: gradients of gradients, weights moved through .data, no optimizer for the inner
loop.
"""

import torch
from torch import nn

torch.manual_seed(34)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
for step in range(15):
    phase = torch.rand(1) * 3
    x = torch.linspace(-3, 3, 32).unsqueeze(1)
    y = torch.sin(x + phase)
    weights = dict(model.named_parameters())
    inner = nn.functional.mse_loss(torch.func.functional_call(model, weights, (x[::2],)), y[::2])
    grads = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
    fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
    outer = nn.functional.mse_loss(torch.func.functional_call(model, fast, (x[1::2],)), y[1::2])
    model.zero_grad()
    outer.backward()
    for w in model.parameters():
        w.data -= 0.05 * w.grad
print(f"inner {inner.item():.6f} outer {outer.item():.6f}")
