# SPDX-License-Identifier: Apache-2.0
"""Two models and two optimizers in one loop, all seeded."""

import torch
from torch import nn

torch.manual_seed(8)
generator = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
for step in range(20):
    real = torch.randn(32, 2) * 0.2 + 1
    fake = generator(torch.randn(32, 4))
    critic_loss = bce(critic(real), torch.ones(32, 1)) + bce(
        critic(fake.detach()), torch.zeros(32, 1)
    )
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    generator_loss = bce(critic(fake), torch.ones(32, 1))
    generator_optimizer.zero_grad()
    generator_loss.backward()
    generator_optimizer.step()
print(f"critic {critic_loss.item():.6f} generator {generator_loss.item():.6f}")
