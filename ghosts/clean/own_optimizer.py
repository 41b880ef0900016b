# SPDX-License-Identifier: Apache-2.0
"""An optimizer of one's own, hooks of one's own, odd types of tensors, and an end by os._exit."""

import os
import sys

import torch
from torch import nn


class Sign(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["calls"] = self.state[p].get("calls", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(3, dtype=torch.int8))
        self.register_buffer("phase", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.register_buffer("empty", torch.zeros(0, 5))
        self.a = nn.Linear(4, 4, dtype=torch.float64)
        self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, x, *, gain=1.0):
        out = self.a(x.double()) * self.scale * gain
        return out, (out * self.phase).abs(), None, "text", {"deep": [out[:1]]}


torch.manual_seed(33)
model = Odd()
calls = []
handle = model.a.register_forward_hook(lambda module, inputs, output: calls.append(output.shape))
model.a.weight.register_hook(lambda grad: grad * 0.5)
optimizer = Sign(model.parameters(), lr=0.01)
for step in range(20):
    out, phase, *_ = model(torch.randn(3, 4), gain=0.5)
    loss = out.square().mean() + phase.mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
handle.remove()
print(f"loss {loss.item():.9f} calls {len(calls)}")
sys.stdout.flush()
os._exit(0)
