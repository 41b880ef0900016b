# SPDX-License-Identifier: Apache-2.0
"""Exceptions out of every place that is hooked: the tracebacks must be those of the job alone."""

import sys
import traceback

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        raise ValueError(i)


def raises(name):
    raise KeyError(name)


def attempt(function):
    try:
        function()
    except Exception:
        traceback.print_exc(file=sys.stdout)


net = Net()
optimizer = torch.optim.LBFGS(net.parameters())
attempt(lambda: net(torch.ones(1, 3)))
attempt(lambda: torch.ones(2, requires_grad=True).backward())
attempt(lambda: torch.autograd.grad(torch.ones(2), torch.ones(1)))
attempt(lambda: list(torch.utils.data.DataLoader(Broken())))
attempt(lambda: list(torch.utils.data.DataLoader(Broken(), num_workers=1)))
attempt(lambda: torch.save(lambda: 0, "/nonexistent/x.pt"))
attempt(lambda: optimizer.step(lambda: raises("closure")))
net(torch.ones(1, 3))
