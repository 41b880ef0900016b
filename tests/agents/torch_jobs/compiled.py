# SPDX-License-Identifier: Apache-2.0
"""torch.compile in three ways; prints what the compiler did, which must not depend on
who watches.
"""

import torch
import torch._dynamo


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x):
        return self.b(self.a(x))


def what_happened():
    counters = torch._dynamo.utils.counters
    print(
        sorted(counters["stats"].items()),
        sorted(counters["frames"].items()),
        dict(counters["graph_break"]),
    )


@torch.compile(backend="eager")
def total(model, x):
    return model(x).sum()


torch.manual_seed(0)
net = Net()
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    compiled(torch.randn(3, 4)).sum().backward()
    optimizer.step()
print(net.a.weight.sum().item())
what_happened()
net.compile(backend="eager")
print(net(torch.ones(1, 4)).sum().item(), total(Net(), torch.ones(2, 4)).item())
what_happened()
