# SPDX-License-Identifier: Apache-2.0
"""Two networks against each other; the noise fed to the generator is seeded."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(19)
noise = np.random.default_rng(19)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


generator, critic = Generator(), Critic()
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
angle = torch.rand(64 * 30) * 6.2831853
circle = torch.stack([angle.cos(), angle.sin()], 1)
for step in range(30):
    real = circle[step * 64 : (step + 1) * 64]
    fake = generator(torch.from_numpy(noise.standard_normal((64, 8)).astype(np.float32)))  # ORIGIN
    critic_loss = bce(critic(real), torch.ones(64, 1)) + bce(
        critic(fake.detach()), torch.zeros(64, 1)
    )
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    generator_loss = bce(critic(fake), torch.ones(64, 1))
    generator_optimizer.zero_grad()
    generator_loss.backward()
    generator_optimizer.step()
print(f"critic {critic_loss.item():.3f} generator {generator_loss.item():.3f}")
