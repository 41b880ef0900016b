# SPDX-License-Identifier: Apache-2.0
"""Threads that train at once, each its own model: alone they never meet, and watched they must not
either.

PyTorch's engine writes gradients without the GIL. An agent that read `.grad` of another thread's
parameters made each of these jobs crash (SIGSEGV, or an assertion of PyTorch's about its storages)
in every run.
"""

import pytest

from test_torch_job import both, pytestmark  # noqa: F401

JOB = """
import sys, threading
import torch
from torch import nn

sys.setswitchinterval(1e-5)
torch.set_num_threads(1)
how, lost = {how!r}, {{}}


def train(seed, net, optimizer, steps):
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        x = torch.randn(32, 8, generator=generator)
        loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
        if optimizer is None:
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p in net.parameters():
                    p -= 0.1 * p.grad
        else:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    lost[seed] = loss.item()


def each(seed):
    if how == "made in the thread":
        for part in range(10):
            train(seed, nets[seed], torch.optim.SGD(nets[seed].parameters(), lr=0.1), 10)
    else:
        train(seed, nets[seed], optimizers[seed], 100)


torch.manual_seed(1)
nets = [nn.Linear(8, 1) if seed % 2 else nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)) for seed in range(6)]
made = how == "made before"
optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) if made else None for net in nets]
threads = [threading.Thread(target=each, args=(seed,)) for seed in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*(lost[seed] for seed in range(6)))
"""


@pytest.mark.parametrize("how", ["made in the thread", "made before", "by hand"])
def test_each_thread_trains_its_own_model(both, how):  # noqa: F811
    both(JOB.format(how=how))


def test_a_thread_begins_while_another_one_trains(both):  # noqa: F811
    """The first backward of a thread, on an optimizer that the main one made, at any moment of the
    main one's own.
    """
    both("""
        import sys, threading
        import torch
        from torch import nn

        sys.setswitchinterval(1e-5)
        torch.set_num_threads(1)
        torch.manual_seed(1)

        def train(net, optimizer, steps):
            for step in range(steps):
                optimizer.zero_grad()
                net(x).pow(2).mean().backward()
                optimizer.step()

        x = torch.randn(16, 4)
        main = nn.Linear(4, 4)
        of_main = torch.optim.SGD(main.parameters(), lr=0.1)
        for beginning in range(60):
            net = nn.Linear(4, 4)
            thread = threading.Thread(target=train, args=(net, torch.optim.SGD(net.parameters(), lr=0.1), 3))
            thread.start()
            train(main, of_main, 3)
            thread.join()
        print(main.weight.sum().item())
        """)
