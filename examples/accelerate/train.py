# SPDX-License-Identifier: Apache-2.0
"""A training loop of one's own with Accelerate, on data that the script makes itself."""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--forget-schedule", action="store_true")
    args = parser.parse_args()
    set_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    x = torch.rand(128, 32, generator=torch.Generator().manual_seed(0))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=16)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if not args.forget_schedule:
        schedule = accelerator.prepare(schedule)
    start = 0
    if args.resume:
        accelerator.load_state("checkpoint")
        start = 1
    for epoch in range(start, args.epochs):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                optimizer.step()
                if accelerator.sync_gradients:
                    schedule.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.6f}")
        accelerator.save_state("checkpoint")
    accelerator.end_training()


if __name__ == "__main__":
    main()
