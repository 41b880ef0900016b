"""A small PyTorch job: loader, dropout, Adam, checkpoint."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,)))
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(2):
    for i, (x, y) in enumerate(DataLoader(data, batch_size=16, shuffle=True)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("epoch %d batch %d loss %.6f" % (epoch, i, loss.item()), flush=True)
torch.save(model.state_dict(), "model.pt")
