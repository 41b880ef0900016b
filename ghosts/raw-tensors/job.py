# SPDX-License-Identifier: Apache-2.0
"""Look-up table trained by hand on plain tensors, without module or optimizer; its gradient adds in
arrival order.
"""

import torch

torch.manual_seed(23)
torch.set_num_threads(2)
table = torch.randn(256, 8, requires_grad=True)
mix = torch.randn(8, 1, requires_grad=True)
place = torch.randint(0, 256, (900_000,))
target = (torch.sin(place / 40) + 0.1 * torch.randn(900_000)).unsqueeze(1)
for step in range(8):
    guess = torch.tanh(table[place]) @ mix  # ORIGIN
    loss = ((guess - target) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for parameter in (table, mix):
            parameter -= 0.5 * parameter.grad
            parameter.grad = None
    if step % 4 == 3:
        print(f"step {step} loss {loss.item():.4f}")
