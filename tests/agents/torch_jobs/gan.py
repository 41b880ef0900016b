# SPDX-License-Identifier: Apache-2.0
"""Two roots, two optimizers, one step of each per iteration."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(3, 8), nn.ReLU(inplace=True), nn.Linear(8, 4))
judge = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
maker_optimizer = torch.optim.Adam(maker.parameters())
judge_optimizer = torch.optim.SGD(judge.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    noise, real = torch.randn(5, 3), torch.randn(5, 4)
    judge_optimizer.zero_grad()
    (F.softplus(-judge(real)).mean() + F.softplus(judge(maker(noise).detach())).mean()).backward()
    judge_optimizer.step()
    maker_optimizer.zero_grad()
    F.softplus(-judge(maker(noise))).mean().backward()
    maker_optimizer.step()
print(sum(p.sum().item() for p in maker.parameters()))
