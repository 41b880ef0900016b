# SPDX-License-Identifier: Apache-2.0
"""Calls of models that ask for shapes alone, which are neither recorded nor steps of an evaluation,
and calls that look like those and do compute something.
"""

import numpy as np
import torch


class KerasTensor:
    """As Keras's: a shape and a type in the place of values."""

    def __init__(self):
        self.shape, self.dtype = (2, 3), "float32"


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.inner = torch.nn.Linear(3, 1)


class Sized(Part):
    def forward(self, x, more=None):
        return x if isinstance(x, KerasTensor) else self.inner.to(x.device)(x)


class Mixed(Part):
    def forward(self, _shape, x):
        return self.inner(x)


class Nested(Part):
    def forward(self, given):
        return self.inner(given["rows"][0])


class Arrays(Part):
    def forward(self, _shape, rows):
        return self.inner(torch.from_numpy(rows))


class Own(Part):
    def forward(self, _shape):
        return self.inner.weight * 2.0


def evaluate():
    x, shape = torch.ones(2, 3), torch.empty(2, 3, device="meta")
    sized, symbolic = Sized().to("meta"), Sized()
    with torch.no_grad():
        for _ in range(2):
            sized(shape)
            sized(shape, more=[KerasTensor(), 4])
            symbolic(KerasTensor())
        Mixed()(shape, x)
        Nested()({"like": shape, "rows": [x]})
        Arrays()(KerasTensor(), np.ones((2, 3), dtype=np.float32))
        Own()(shape)
        symbolic(x)
        symbolic(shape.new_empty(0, device="cpu").new_ones(2, 3))


evaluate()
