# SPDX-License-Identifier: Apache-2.0
"""PyTorch jobs of the kinds that users brought, for run.py."""

import threading

import numpy
import torch
from run import digest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, steps=3, rate=0.1, optimizer=torch.optim.SGD):
    opt = optimizer(model.parameters(), lr=rate)
    for _ in range(steps):
        opt.zero_grad()
        loss = model(torch.randn(8, 16)).pow(2).mean()
        loss.backward()
        opt.step()
    print("loss %.9g" % loss.item(), digest(model, opt.state_dict()))


def job_checkpoints():
    model = nn.Linear(16, 4)
    train(model)
    torch.save(model.state_dict(), "model_1.pt")
    torch.save({"model": model.state_dict(), "epoch": 3}, "last.ckpt")
    again = nn.Linear(16, 4)
    again.load_state_dict(torch.load("model_1.pt"))
    train(again)


def job_embedding():
    """Rows of a large table that no batch uses are changed by hand between the steps."""
    table, head = nn.Embedding(20000, 16), nn.Linear(16, 4)
    opt = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.1)
    drawn = numpy.random.default_rng(3)
    data = TensorDataset(torch.randint(0, 200, (64, 5)), torch.randint(0, 4, (64,)))
    for x, y in DataLoader(data, batch_size=16, shuffle=True):
        opt.zero_grad()
        nn.functional.cross_entropy(head(table(x).mean(1)), y).backward()
        opt.step()
        with torch.no_grad():
            table.weight[300:400] = torch.from_numpy(drawn.standard_normal((100, 16)))
    print(digest(table, head))


def job_in_a_thread():
    worker = threading.Thread(
        target=train, args=(nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2)),)
    )
    worker.start()
    worker.join()


def job_weights_by_hand():
    model = nn.Linear(16, 1)
    for step in range(4):
        model(torch.randn(4, 16)).sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.01 * (step + 1))
                p.grad = None
    print(digest(model))


def job_not_finite():
    model = nn.Linear(16, 4)
    with torch.no_grad():
        model.weight[0, 0] = float("nan")
        model.weight[1, 1] = float("inf")
    train(model, optimizer=torch.optim.Adam)


def job_odd_tensors():
    for t in (
        torch.empty(0, 3),
        torch.tensor(1.0),
        torch.randn(4, 4).t(),
        torch.randn(6)[::2],
        torch.arange(3).bool(),
        torch.randn(2, 2).to(torch.bfloat16),
        torch.complex(torch.ones(2), torch.zeros(2)),
        torch.eye(3).to_sparse(),
    ):
        print(t.shape, t.dtype, t.layout, torch.is_tensor(t * 1))
    model = nn.Linear(16, 4).double()
    model(torch.randn(8, 16, dtype=torch.float64)).sum().backward()
    print(digest(model))


def job_left_alone():
    """Ends in an exception that nobody catches inside of a step."""
    opt = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    opt.step(lambda: torch.ones(2) @ torch.ones(3))
