# SPDX-License-Identifier: Apache-2.0
"""Jobs that train in steps which are all alike, until something about them changes. usage:
stepping.py CASE...

Each case trains in a forked child of its own, 24 steps or more: behind the first 16 an agent has
settled. What changes then is what it must notice.
"""

import copy
import io
import multiprocessing
import random
import sys
import threading

import torch

LATE = 19  # the step in which something changes, unless a case says otherwise
STEPS = 24
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def network(width=8, depth=3, head=3):
    layers = [torch.nn.Linear(width, width) for _ in range(depth - 1)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, head))


def adam(model, **options):
    return torch.optim.Adam(model.parameters(), lr=0.01, **options)


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def train(model, optimizer, between=lambda step, when: None, width=8, keep=False, first=0):
    """between(step, "before" | "backward" | "after"): what else a step does, and where."""
    for step in range(first, first + STEPS):
        x, y = torch.randn(4, width), torch.randn(4, 3)
        between(step, "before")
        optimizer.zero_grad(set_to_none=not keep)
        torch.nn.functional.mse_loss(model(x).float(), y).backward()
        between(step, "backward")
        optimizer.step()
        between(step, "after")


def late(when="before", step=LATE):
    """A decorator: the function is called once, at that place."""

    def made(function):
        return lambda now, where: function() if (now, where) == (step, when) else None

    return made


@case
def plain():
    model = network()
    train(model, adam(model))


@case
def kept_gradients():
    model = network()
    train(model, momentum(model), keep=True)


@case
def schedule():
    model = network()
    optimizer = adam(model)
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    train(model, optimizer, lambda step, when: rates.step() if when == "after" else None)


@case
def hyperparameters():
    model = network()
    optimizer = adam(model)
    group = optimizer.param_groups[0]

    def change(step, when):
        if when == "before":
            if step == LATE:
                group["betas"] = [0.8, 0.99]
            elif step == LATE + 1:
                group["lr"] = torch.tensor(0.02)
            elif step == LATE + 2:
                group["lr"], group["more"] = 0.03, 4
            elif step == LATE + 3:
                group["betas"] = (0.7, 0.9)

    train(model, optimizer, change)


@case
def moved_weights():
    model, old = network(), []

    def change(step, when):
        old.append([p.data for p in model.parameters()])  # nobody else gets their memory
        if when == "after" and step == LATE:
            model[0].weight.data = model[0].weight.data.clone()
        elif when == "after" and step == LATE + 1:
            model[0].weight.data = model[0].weight.data * 1.5
        elif when == "backward" and step == LATE + 2:
            model[1].weight.data = model[1].weight.data + 1

    train(model, adam(model), change)


@case
def turned_weights():
    model = network()
    spare = torch.nn.Parameter(torch.arange(64.0).reshape(8, 8))
    optimizer = torch.optim.Adam([*model.parameters(), spare], lr=0.01)

    def change(step, when):
        if when == "after" and step >= LATE:
            spare.data = spare.data.t()

    train(model, optimizer, change)


@case
def cut_weights():
    model = network()
    spare = torch.nn.Parameter(torch.arange(64.0).reshape(8, 8))
    optimizer = torch.optim.Adam([*model.parameters(), spare], lr=0.01)

    def change(step, when):
        if when == "after" and step == LATE:
            spare.data = spare.data[:4]
        elif when == "after" and step == LATE + 2:
            spare.data = spare.data.reshape(8, 4)

    train(model, optimizer, change)


@case
def written_weights():
    model = network()
    weight = model[0].weight

    def change(step, when):
        if step == LATE and when == "before":
            weight.data[0, 1] += 1
        elif step == LATE + 1 and when == "backward":
            model[1].bias.data.mul_(2)
        elif step == LATE + 2 and when == "after":
            model[2].weight.detach().numpy()[0] = 0

    train(model, adam(model), change)


@case
def written_large():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8192), torch.nn.Linear(8192, 3))

    def change(step, when):
        if step == LATE and when == "before":
            with torch.no_grad():
                model[0].weight[5] += 1
        elif step == LATE + 1 and when == "before":
            model[0].weight.data.mul_(1.01)
        elif step == LATE + 2 and when == "before":
            model[0].weight.data = model[0].weight.data.clone()

    train(model, adam(model), change)


@case
def buffers():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), network())

    def change(step, when):
        if step == LATE and when == "before":
            model[1].running_mean.add_(1)
        elif step == LATE + 2 and when == "after":
            model[1].running_var = model[1].running_var.clone()

    train(model, adam(model), change)


@case
def frozen():
    model = network()

    def change(step, when):
        if when == "before" and step in (LATE, LATE + 3):
            for p in model[0].parameters():
                p.requires_grad_(step != LATE)

    train(model, adam(model), change)


@case
def frozen_in_turns():
    """One gradient goes, another one of its shape comes."""
    model = network()

    def change(step, when):
        for i, layer in enumerate(model):
            layer.weight.requires_grad_(False)
            layer.bias.requires_grad_(i == 2 or i == (step >= LATE))

    train(model, torch.optim.SGD(model.parameters(), lr=0.01), change)


@case
def groups():
    model, more = network(), torch.nn.Parameter(torch.ones(3))
    optimizer = adam(model)
    group = optimizer.param_groups[0]

    def change(step, when):
        if when == "before" and step == LATE:
            optimizer.add_param_group({"params": [more], "lr": 0.1})
        elif when == "before" and step == LATE + 2:
            group["params"][0], group["params"][2] = group["params"][2], group["params"][0]
        elif when == "before" and step == LATE + 3:
            del optimizer.param_groups[-1]["params"][-1]

    train(model, optimizer, change)


@case
def replaced_weight():
    model = network()
    optimizer = momentum(model)

    def change(step, when):
        if when == "before" and step == LATE:
            old = model[0].weight
            model[0].weight = torch.nn.Parameter(old.detach() * 2)
            optimizer.param_groups[0]["params"][0] = model[0].weight

    train(model, optimizer, change, keep=True)


@case
def swapped():
    model = network()

    def change(step, when):
        if when == "before" and step == LATE:
            other = torch.nn.Parameter(torch.ones(8, 8))
            torch.utils.swap_tensors(model[0].weight, other)

    train(model, torch.optim.SGD(model.parameters(), lr=0.01), change)


@case
def turned_gradients():
    """Which gradients there are changes from step to step."""
    model, other = network(), network(3, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.01)
    both = [model, torch.nn.Sequential(model, other)]
    for step in range(STEPS):
        optimizer.zero_grad()
        both[step % 2](torch.randn(4, 8)).pow(2).mean().backward()
        optimizer.step()


def changed_gradients(change, keep=False, clip=False):
    model = network()
    train(
        model,
        momentum(model),
        lambda s, w: change(model, s) if w == "backward" else None,
        keep=keep,
    )


@case
def gradients_added():
    def change(model, step):
        if step == LATE:
            model[0].weight.grad.add_(1)

    changed_gradients(change)


@case
def gradients_data():
    """Writes that no version counter tells; whichever of the six gradients is digested."""

    def change(model, step):
        if step == LATE:
            for p in model.parameters():
                p.grad.data[0] += 1

    changed_gradients(change)


@case
def gradients_moved():
    def change(model, step):
        if step == LATE:
            model[0].weight.grad.data = model[0].weight.grad.data * 2

    changed_gradients(change)


@case
def gradients_replaced():
    """Another object with the same memory."""

    def change(model, step):
        if step == LATE:
            model[0].weight.grad = model[0].weight.grad.detach()

    changed_gradients(change, keep=True)


@case
def gradients_gone():
    def change(model, step):
        if step == LATE:
            model[0].weight.grad = None

    changed_gradients(change, keep=True)


@case
def gradients_clipped():
    def change(model, step):
        if step >= LATE:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    changed_gradients(change)


@case
def gradients_turned():
    """A gradient that stands elsewhere in memory, in another order, since the backward."""
    model = network()
    for p in model.parameters():
        p.register_hook(lambda g: g.t().contiguous().t() if g.dim() == 2 and turned[0] else g)
    turned = [False]

    def change(step, when):
        if when == "before":
            turned[0] = step in (LATE, LATE + 2)

    train(model, momentum(model), change)


@case
def accumulated():
    model = network()
    optimizer = momentum(model)
    for step in range(2 * STEPS):
        model(torch.randn(4, 8)).pow(2).mean().backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()


@case
def changed_state():
    model = network()
    optimizer = adam(model)
    of = lambda i: optimizer.state[list(model.parameters())[i]]  # noqa: E731

    def change(step, when):
        if when != "before":
            return
        if step == LATE:
            of(0)["exp_avg"] = of(0)["exp_avg"] * 2
        elif step == LATE + 1:
            of(1)["exp_avg"].data = of(1)["exp_avg"].data * 3
        elif step == LATE + 2:
            of(2)["exp_avg"], of(2)["exp_avg_sq"] = of(2)["exp_avg_sq"], of(2)["exp_avg"]
        elif step == 5:
            of(4)["extra"] = torch.ones(2, 2)
        elif step == LATE - 1:
            of(4)["extra"] = of(4)["extra"].view(4)
        elif step == LATE + 3:
            of(3)["extra"] = torch.ones(2)
        elif step == LATE + 4:
            del optimizer.state[model[2].bias]

    train(model, optimizer, change)


@case
def other_state():
    """A state of the same size, of another parameter."""
    model, spare = network(), torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([*model.parameters(), spare], lr=0.01)

    def change(step, when):
        if when == "before" and step == LATE:
            states = list(optimizer.state.items())
            optimizer.state.clear()
            for p, state in states:
                optimizer.state[spare if p is model[0].bias else p] = state
            model[0].bias.requires_grad_(False)
        elif when == "before" and step == LATE + 2:
            del optimizer.state[model[2].bias]
            model[2].bias.requires_grad_(False)

    train(model, optimizer, change)


@case
def loaded_state():
    model = network()
    optimizer = adam(model)
    kept = {}

    def change(step, when):
        if when == "after" and step == LATE - 4:
            kept.update(copy.deepcopy(optimizer.state_dict()))
        elif when == "after" and step == LATE:
            optimizer.load_state_dict(kept)

    train(model, optimizer, change)


@case
def large():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8192), torch.nn.Linear(8192, 3))

    def change(step, when):
        if when == "after" and step == LATE:
            model[0].weight.data = model[0].weight.data.clone()
        elif when == "after" and step == LATE + 2:
            model[0].weight.data = model[0].weight.data.view(8, 8192)
        elif when == "before" and step == LATE + 3:
            model[0].weight.data = model[0].weight.data.view(8192, 8)

    train(model, adam(model), change)


@case
def sparse():
    table, head = torch.nn.Embedding(50, 8, sparse=True), network()
    first, second = torch.optim.SparseAdam(table.parameters()), momentum(head)
    for _ in range(STEPS):
        first.zero_grad()
        second.zero_grad()
        head(table(torch.randint(0, 50, (4,)))).pow(2).mean().backward()
        first.step()
        second.step()


@case
def without_memory():
    model = network()
    nowhere = torch.nn.Parameter(torch.empty(4, 4, device="meta"))
    train(model, torch.optim.SGD([*model.parameters(), nowhere], lr=0.01))


class Named(torch.nn.Parameter):
    pass


@case
def subclass():
    model = network()
    model[0].weight = Named(model[0].weight.detach())

    def change(step, when):
        if step == LATE and when == "before":
            model[1].weight = Named(model[1].weight.detach())

    train(model, momentum(model), change)


@case
def implementations():
    for options in ({"fused": True}, {"foreach": True}, {"amsgrad": True, "foreach": False}):
        model = network()
        train(model, adam(model, **options))


@case
def closure():
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    x, y = torch.randn(4, 8), torch.randn(4, 3)

    def again():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(again)


@case
def two_optimizers():
    body, head = network(), torch.nn.Linear(3, 3)
    optimizers = [adam(body), momentum(head)]
    for step in range(STEPS):
        for which in (0, 1) if step % 3 else (1, 0):
            for optimizer in optimizers:
                optimizer.zero_grad()
            head(body(torch.randn(4, 8))).pow(2).mean().backward()
            optimizers[which].step()


@case
def threads():
    """Two threads that train in turns."""
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    def work(me):
        turns[me].acquire()
        model = network()
        optimizer = adam(model)
        turns[1 - me].release()
        for _ in range(STEPS):
            turns[me].acquire()
            optimizer.zero_grad()
            model(torch.randn(4, 8)).pow(2).mean().backward()
            optimizer.step()
            turns[1 - me].release()

    both = [threading.Thread(target=work, args=(i,), name="trainer%d" % i) for i in (0, 1)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()


@case
def scaler():
    model = network()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(STEPS):
        x = torch.randn(4, 8) * (float("inf") if step == LATE else 1)
        optimizer.zero_grad()
        scaler.scale(model(x).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update()


@case
def compiled():
    model = network()
    optimizer = adam(model)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).pow(2).mean().backward()
        step()


@case
def checkpoints():
    model = network()
    optimizer = adam(model)

    def save(step, when):
        if when == "after" and step % 5 == 0:
            torch.save([model.state_dict(), optimizer.state_dict()], io.BytesIO())

    train(model, optimizer, save)


@case
def draws():
    model = torch.nn.Sequential(network(), torch.nn.Dropout(0.5))

    def draw(step, when):
        if when == "backward" and step == LATE:
            torch.rand(3)
        elif when == "after" and step == LATE:
            random.random()
        elif when == "before" and step == LATE + 1:
            torch.manual_seed(5)
        elif when == "backward" and step == LATE + 1:
            random.seed(3)

    train(model, adam(model), draw)


class Views(torch.nn.Module):
    """Gives out the same memory in different ways."""

    def __init__(self):
        super().__init__()
        self.inner = network()
        self.kept = torch.arange(1.0, 17.0).reshape(4, 4)
        self.how = lambda kept: kept
        self.given = []  # nobody else gets their memory

    def forward(self, x):
        self.loss = self.inner(x).pow(2).mean()
        self.given.append(self.how(self.kept))
        return self.given[-1]


@case
def views():
    model = Views()
    optimizer = momentum(model)
    ways = [
        lambda kept: kept.view(torch.int32),
        lambda kept: kept.t(),
        lambda kept: kept.view(2, 8),
        lambda kept: kept[:2],
        lambda kept: kept.clone().t()[::2],
        lambda kept: kept.t()[::2],
        lambda kept: kept.t()[:2],
        lambda kept: torch.complex(kept, kept),
        lambda kept: torch.complex(kept, kept).conj(),
        lambda kept: kept.to_sparse(),
        lambda kept: kept,
    ]
    for step in range(STEPS + 2 * len(ways)):
        if step >= STEPS:
            model.how = ways[(step - STEPS) // 2]
        optimizer.zero_grad()
        model(torch.randn(4, 8))
        model.loss.backward()
        optimizer.step()


@case
def negatives():
    model = Views()
    optimizer = momentum(model)
    for step in range(STEPS):
        both = (lambda x: x) if step < LATE else torch.conj
        model.how = lambda kept: both(torch.complex(kept, kept)).imag  # noqa: B023
        optimizer.zero_grad()
        model(torch.randn(4, 8))
        model.loss.backward()
        optimizer.step()


class Loud(torch.nn.Parameter):
    asked = 0

    @property
    def shape(self):
        Loud.asked += 1
        return super().shape


@case
def asked():
    """How often somebody asks a weight of the job's own class for its shape."""
    model = network()

    def change(step, when):
        if when == "after" and step == LATE:
            model[0].weight.__class__ = Loud

    train(model, torch.optim.SGD(model.parameters(), lr=0.01), change)
    print(Loud.asked, flush=True)


@case
def early_end():
    """Optimizers that come and go, with their parameters."""
    for i in range(3):
        model = network()
        optimizer = adam(model) if i % 2 else momentum(model)
        train(model, optimizer)
        if i:
            model[0].weight.data.add_(1)
        del optimizer


def child(name):
    torch.manual_seed(0)
    random.seed(0)
    CASES[name]()


def main():
    context = multiprocessing.get_context("fork")
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        process = context.Process(target=child, args=(name,))
        process.start()
        process.join()
        print(name, process.exitcode, flush=True)


if __name__ == "__main__":
    main()
