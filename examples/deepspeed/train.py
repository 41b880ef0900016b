# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's ZeRO on two ranks, on data that the script makes itself."""

import argparse

import deepspeed
import torch
from torch import nn
from torch.utils.data import TensorDataset

CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
    "steps_per_print": 4,
}


def main():
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    deepspeed.init_distributed("gloo")
    if args.seed is not None:
        torch.manual_seed(args.seed)
    x = torch.rand(128, 32, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
    engine, _, loader, _ = deepspeed.initialize(
        args=args,
        model=model,
        model_parameters=model.parameters(),
        training_data=TensorDataset(x, x.sum(1, keepdim=True)),
        config=CONFIG,
    )
    for _epoch in range(2):
        for inputs, targets in loader:
            loss = nn.functional.mse_loss(engine(inputs), targets)
            engine.backward(loss)
            engine.step()
    engine.save_checkpoint("checkpoint")
    print(f"rank {engine.global_rank}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
