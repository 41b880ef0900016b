# SPDX-License-Identifier: Apache-2.0
"""Two models trained at once by two threads of one process."""

import threading

import torch
from torch import nn

results = {}


def train(name, seed):
    generator = torch.Generator().manual_seed(seed)
    model = models[name]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        x = torch.randn(32, 8, generator=generator)
        loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    results[name] = loss.item()


torch.manual_seed(29)
models = {
    "left": nn.Linear(8, 1),
    "right": nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)),
}
threads = [threading.Thread(target=train, args=(name, seed)) for seed, name in enumerate(models)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(" ".join(f"{name} {results[name]:.6f}" for name in sorted(results)))
