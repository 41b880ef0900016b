# SPDX-License-Identifier: Apache-2.0
"""Copies and transforms of a model: an averaged copy, weight norm, a traced graph, functional
calls, per-sample gradients.
"""

import copy

import torch
from torch import nn

torch.manual_seed(31)
model = nn.Sequential(
    nn.utils.parametrizations.weight_norm(nn.Linear(6, 16)), nn.Tanh(), nn.Linear(16, 1)
)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
average = None
x = torch.randn(128, 6)
y = x[:, :1] - x[:, 1:2]
for step in range(20):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if average is None:
        average = copy.deepcopy(model)
    with torch.no_grad():
        for old, new in zip(average.parameters(), model.parameters()):
            old.lerp_(new, 0.1)

plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
traced = torch.fx.symbolic_trace(plain)
scripted = torch.jit.trace(plain, x)
weights = dict(plain.named_parameters())


def one_loss(weights, x, y):
    return (
        (torch.func.functional_call(plain, weights, (x.unsqueeze(0),)).squeeze(0) - y)
        .square()
        .sum()
    )


per_sample = torch.func.vmap(torch.func.grad(one_loss), (None, 0, 0))(weights, x, y)
norms = sum(g.flatten(1).square().sum(1) for g in per_sample.values()).sqrt()
agree = torch.equal(traced(x), plain(x)) and torch.allclose(scripted(x), plain(x))
print(
    f"loss {loss.item():.6f} averaged {nn.functional.mse_loss(average(x), y).item():.6f} norm {norms.mean().item():.5f} {agree}"
)
