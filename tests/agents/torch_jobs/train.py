# SPDX-License-Identifier: Apache-2.0
"""A small network over a shuffled loader: batch norm, dropout, AdamW, a loss module, a learning
rate schedule.
"""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)
        self.b = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.b(self.drop(torch.relu(self.norm(self.a(x)))))


torch.manual_seed(0)
net = Net()
data = torch.utils.data.TensorDataset(torch.randn(12, 4), torch.randint(0, 2, (12,)))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
criterion = torch.nn.CrossEntropyLoss()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(net(x), y)
    loss.backward()
    optimizer.step()
    schedule.step()
    print(loss.item())
