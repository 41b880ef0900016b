# SPDX-License-Identifier: Apache-2.0
"""An optimizer whose moments stay where they are and have no plain memory: a conjugate view; with
`sparse` a sparse tensor, too.
"""

import sys

import torch


class Odd(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["plain"] = torch.zeros(3)
                state["turned"] = torch.zeros(3, dtype=torch.complex64).conj()
                if "sparse" in sys.argv:
                    state["sparse"] = torch.eye(3).to_sparse()
            state["turned"].add_(1 + 2j)
            p -= 0.1 * p.grad


weight = torch.nn.Parameter(torch.ones(3))
optimizer = Odd([weight])
for step in range(5):
    optimizer.zero_grad()
    (weight**2).sum().backward()
    optimizer.step()
