# SPDX-License-Identifier: Apache-2.0
"""Models and ways to train them; each prints digests of its weights and its generators."""

import torch
import torch.nn.functional as F
from run import digest
from torch import nn


def train(model, batches, optimizer, loss, schedule=None):
    for x, y in batches:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        if schedule:
            schedule.step()
    print(value.item().hex(), digest(model, optimizer.state_dict()))


def job_mlp():
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(0.3), nn.Linear(9, 3))
    batches = [(torch.randn(4, 6), torch.randint(3, (4,))) for _ in range(5)]
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"):
        train(
            model,
            batches,
            getattr(torch.optim, name)(model.parameters(), lr=0.01),
            nn.CrossEntropyLoss(),
        )


def job_cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    batches = [(torch.randn(4, 1, 8, 8), torch.randint(3, (4,))) for _ in range(4)]
    model(batches[0][0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    train(
        model,
        batches,
        optimizer,
        nn.CrossEntropyLoss(),
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5),
    )
    model.eval()
    with torch.no_grad():
        print(digest(model(batches[1][0])))


def job_transformer():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(
        nn.Embedding(20, 16),
        nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        nn.Linear(16, 20),
    )
    batches = [(torch.randint(20, (3, 7)), torch.randint(20, (3, 7))) for _ in range(3)]
    train(
        model,
        batches,
        torch.optim.AdamW(model.parameters()),
        lambda a, b: F.cross_entropy(a.flatten(0, 1), b.flatten()),
    )


def job_rnn():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru, self.head = (
                nn.LSTM(5, 8, 2, dropout=0.2),
                nn.GRU(8, 4),
                nn.Linear(4, 1),
            )

        def forward(self, x):
            return self.head(self.gru(self.lstm(x)[0])[0])

    model = Net()
    batches = [(torch.randn(6, 3, 5), torch.randn(6, 3, 1)) for _ in range(3)]
    train(model, batches, torch.optim.Adam(model.parameters()), F.mse_loss)


def job_clipping():
    model = nn.Linear(5, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        for _ in range(2):
            (model(torch.randn(3, 5)).pow(2).sum() * 10).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    print(norm.item().hex(), digest(model))


def job_amp():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(4, 8)).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(scaler.get_scale(), digest(model))


def job_lbfgs_and_averages():
    model = nn.Linear(4, 1)
    x, y = torch.randn(10, 4), torch.randn(10, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    average = torch.optim.swa_utils.AveragedModel(model)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        print(optimizer.step(closure).item().hex())
        average.update_parameters(model)
    print(digest(model, average))


def job_gan():
    maker, judge = (
        nn.Linear(3, 4),
        nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 1)),
    )
    a, b = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(3):
        b.zero_grad()
        (
            F.softplus(-judge(torch.randn(5, 4)))
            + F.softplus(judge(maker(torch.randn(5, 3)).detach()))
        ).mean().backward()
        b.step()
        a.zero_grad()
        F.softplus(-judge(maker(torch.randn(5, 3)))).mean().backward()
        a.step()
    print(digest(maker, judge))


def job_second_order():
    model = nn.Linear(3, 1)
    x = torch.randn(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).tanh().sum(), x, create_graph=True)
    gradient.pow(2).sum().backward()
    hessian = torch.autograd.functional.hessian(lambda w: (w**3).sum(), torch.randn(3))
    mapped = torch.func.vmap(torch.func.grad(lambda w: (w**2).sum()))(torch.randn(4, 3))
    print(digest(x.grad, model.weight.grad, hessian, mapped))


def job_generators():
    one, two = torch.Generator().manual_seed(5), torch.Generator().manual_seed(6)
    print(digest(torch.randn(5, generator=one), torch.randperm(10, generator=two), torch.rand(3)))
    kept = torch.get_rng_state()
    first = torch.rand(4)
    torch.set_rng_state(kept)
    with torch.random.fork_rng():
        torch.manual_seed(9)
        torch.rand(7)
    print(
        torch.equal(first, torch.rand(4)),
        one.initial_seed(),
        torch.initial_seed(),
        digest(one.get_state()),
    )
    loader = torch.utils.data.DataLoader(range(20), batch_size=3, shuffle=True, generator=two)
    print([batch.tolist() for batch in loader])
