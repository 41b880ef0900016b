# SPDX-License-Identifier: Apache-2.0
"""Batches that hold more than is recorded of one. usage: structures.py many|deep|values|fits"""

import sys

import torch

HOW = sys.argv[1]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
model.register_buffer("table", torch.zeros(20000))  # too large to be recorded in every step
for p in model[1].parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        x = torch.ones(3, 2)
        deep = x
        for _ in range(9 if HOW == "deep" else 1):
            deep = [deep]
        return x, [torch.ones(1)] * (5000 if HOW == "many" else 1), deep


sampler = [[tuple(["name"] * 70000)]] if HOW == "values" else [[0]]
loader = torch.utils.data.DataLoader(
    Batches(), batch_sampler=sampler, collate_fn=lambda samples: samples[0]
)
for x, _many, _deep in loader:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
model.table.data[7] = 1  # by another tensor that shares its memory: no version counter tells it
