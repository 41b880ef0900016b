# SPDX-License-Identifier: Apache-2.0
"""Facts that the agent notes. usage: facts.py
seeded|unseeded|late|shared|set|random|random-seeded|numpy|numpy-seeded
"""

import random
import sys

import torch

HOW = sys.argv[1]
if HOW in ("seeded", "shared", "set"):
    torch.manual_seed(0)
if HOW != "late":
    model = torch.nn.Linear(4, 2)
else:  # nothing is drawn before the first step's noise
    model = torch.nn.Sequential(
        torch.nn.utils.skip_init(torch.nn.Linear, 4, 2), torch.nn.Dropout(0.5)
    )
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(1)
if HOW == "shared":
    model.share_memory()
parameters = list(model.parameters())
if HOW == "set":
    parameters.reverse()
optimizer = torch.optim.Adam(parameters, lr=0.01)
if HOW == "random-seeded":
    random.seed(3)
if HOW == "numpy-seeded":
    import numpy

    numpy.random.seed(3)
for _ in range(2):
    if HOW.startswith("random"):
        random.random()
    elif HOW.startswith("numpy"):
        import numpy

        numpy.random.rand(2000)
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
