# SPDX-License-Identifier: Apache-2.0
"""Power iteration: tensors only, no gradient at all."""

import torch

torch.manual_seed(12)
a = torch.randn(64, 64)
a = a @ a.T
v = torch.randn(64)
for step in range(40):
    v = a @ v
    v = v / v.norm()
print(f"largest eigenvalue {(v @ a @ v).item():.4f}")
