# SPDX-License-Identifier: Apache-2.0
"""No optimizer: parameters of a module, leaves of raw code in place, leaves made anew, with
backward and autograd.grad.
"""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
for _ in range(3):
    model.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad
w, b = torch.randn(3, requires_grad=True), torch.zeros(1, requires_grad=True)
for _ in range(3):
    ((w * 2).sum() + b).pow(2).backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad = b.grad = None
v = torch.randn(3, requires_grad=True)
for _ in range(3):
    (gradient,) = torch.autograd.grad(v.pow(2).sum(), v)
    v = (v - 0.1 * gradient).detach().requires_grad_()
print(w.sum().item(), b.item(), v.sum().item())
