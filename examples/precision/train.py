"""A small network on generated data; prints its loss on data that it has not seen.

python train.py f32 0            in single precision, seed 0
python train.py bf16 0           products in bfloat16, weights in single precision
python train.py bf16-weights 0   weights in bfloat16, too
"""

import sys

import torch

way, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]]
torch.set_num_threads(1)


def training(seed):
    torch.manual_seed(1)
    x = torch.randn(1064, 8)
    y = torch.tanh(x @ torch.randn(8, 1))
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    if way == "bf16-weights":
        net.to(torch.bfloat16)
        x, y = x.to(torch.bfloat16), y.to(torch.bfloat16)
    sgd = torch.optim.SGD(net.parameters(), lr=0.003)
    for step in range(300):
        rows = torch.randint(0, 1000, (64,))
        with torch.autocast("cpu", torch.bfloat16, enabled=way == "bf16"):
            loss = torch.nn.functional.mse_loss(net(x[rows]), y[rows])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    with torch.no_grad():
        return float(torch.nn.functional.mse_loss(net(x[1000:]).float(), y[1000:].float()))


for seed in seeds:
    print(f"{training(seed):.6f}")
