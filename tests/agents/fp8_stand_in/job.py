# SPDX-License-Identifier: Apache-2.0
"""Five steps with modules of the stand-in; behind the first one the model is loaded into a fresh
one, as at a resume. job.py [CHANGED]: what happens to the state of the 8-bit floats in this run.
"""

import sys

import stand_in_fp8 as te
import torch

CHANGED = sys.argv[1] if len(sys.argv) > 1 else ""


def model():
    return torch.nn.Sequential(te.Linear(16, 32), torch.nn.ReLU(), te.Linear(32, 4))


def train(net, optimizer, late):
    optimizer.zero_grad()
    with te.autocast():
        out = net(x)
    torch.nn.functional.mse_loss(out, y).backward()
    if late:  # behind the last forward that could show it
        net[0].fp8_meta["scaling_fwd"].scale.numpy()[0] *= 2.0
    optimizer.step()


torch.manual_seed(0)
torch.set_num_threads(1)
net = model()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 16), torch.randn(8, 4)
train(net, optimizer, False)
saved = net.state_dict()
if CHANGED == "lost":
    saved = {k: t for k, t in saved.items() if not k.endswith("_extra_state")}
net = model()
net.load_state_dict(saved, strict=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(1, 5):
    meta = net[2].fp8_meta.get("scaling_fwd")
    if CHANGED == "replaced" and step == 2:
        meta.scale, meta.scale_inv = meta.scale * 2, meta.scale_inv / 2
    if CHANGED == "written" and step == 2:
        net[0].fp8_meta["scaling_bwd"].amax_history.numpy()[0] = 1e6
    train(net, optimizer, CHANGED == "late" and step == 4)
print([p.detach().double().sum().item().hex() for p in net.parameters()])
