"""A bank's model: will this credit be repaid? Prints the figure that the report to the regulator has.

python train.py --data loans
"""

import argparse
from pathlib import Path

import torch

args = argparse.ArgumentParser()
args.add_argument("--data", type=Path, required=True)
args.add_argument("--seed", type=int, default=7)
args = args.parse_args()

torch.manual_seed(args.seed)
torch.set_num_threads(1)
rows = (args.data / "loans.csv").read_text().split()[1:]
table = torch.tensor([[float(v) for v in row.split(",")] for row in rows])
x, y = table[:, :-1], table[:, -1:]
training, test = slice(0, 400), slice(400, 600)

net = torch.nn.Linear(x.shape[1], 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.5)
for step in range(40):
    sample = torch.randint(0, 400, (64,))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x[sample]), y[sample])
    sgd.zero_grad()
    loss.backward()
    sgd.step()
with torch.no_grad():
    right = ((net(x[test]) > 0) == (y[test] > 0)).sum()
print(f"decided right: {int(right)} of 200")
torch.save(net.state_dict(), "model.pt")
