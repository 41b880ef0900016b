# SPDX-License-Identifier: Apache-2.0
"""A weight and moments too large to be recorded whole in every step. usage: large.py STEPS
[OPTIMIZER [HOW]]

HOW: `save`: saves a checkpoint after 17 steps; `resume`: goes on behind them, with a state that
counts them; `function`: the optimizer is gone before the process ends; `exit`: ends by os._exit;
`child`: trains in a forked child of multiprocessing.
"""

import os
import sys

import torch

STEPS = int(sys.argv[1])
OPTIMIZER = sys.argv[2] if len(sys.argv) > 2 else "SGD"
HOW = sys.argv[3] if len(sys.argv) > 3 else ""


def make():
    torch.manual_seed(0)
    model = torch.nn.Linear(512, 513)
    if OPTIMIZER == "Adam":
        return model, torch.optim.Adam(model.parameters(), lr=0.01)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def train(model, optimizer, first, end):
    for step in range(first, end):
        optimizer.zero_grad()
        model(torch.ones(2, 512)).pow(2).mean().backward()
        optimizer.step()
        if HOW == "save" and step == 16:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "large.pt"
            )


def main():
    model, optimizer = make()
    if HOW == "resume":
        moments = lambda p: {
            "step": torch.tensor(17.0),
            "exp_avg": torch.zeros_like(p),
            "exp_avg_sq": torch.zeros_like(p),
        }  # noqa: E731
        state = {i: moments(p) for i, p in enumerate(model.parameters())}
        optimizer.load_state_dict(
            {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
        )
    train(model, optimizer, 17 if HOW == "resume" else 0, STEPS)
    print(model.weight.sum().item(), flush=True)
    return model, optimizer


if HOW == "child":
    import multiprocessing

    child = multiprocessing.get_context("fork").Process(target=main)
    child.start()
    child.join()
else:
    kept = main()
    if HOW == "function":
        kept = None
    if HOW == "exit":
        os._exit(0)
