# SPDX-License-Identifier: Apache-2.0
"""Convolutional network with batch norm and in-place ReLU, a scheduler, and an evaluation after
each epoch.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
images = torch.randn(384, 1, 16, 16)
labels = (images.mean((1, 2, 3)) > 0).long()
train = DataLoader(TensorDataset(images[:320], labels[:320]), batch_size=32, shuffle=True)
test = DataLoader(TensorDataset(images[320:], labels[320:]), batch_size=64)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(inplace=True),
    nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(16, 2),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
for epoch in range(2):
    model.train()
    for xb, yb in train:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in test)
    print(f"epoch {epoch} loss {loss.item():.6f} accuracy {right / 64:.3f}")
