# SPDX-License-Identifier: Apache-2.0
"""TorchScript made by tracing: graphs that hold numbers as tensors, printed, run and traced again."""

import warnings

import torch

torch.manual_seed(1)
warnings.simplefilter("ignore")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * 2.5 + 1


traced = torch.jit.trace(Scaled(), torch.ones(1, 3))
print(traced.graph)
print(traced.code)
print(traced(torch.arange(6.0).reshape(2, 3)))
again = torch.jit.trace(lambda x: x.t().contiguous().mean() * 3, torch.ones(3, 3))
print(again.graph, again(torch.arange(9.0).reshape(3, 3)))
traced(torch.ones(2, 3)).sum().backward()
print(traced.linear.weight.grad)
