# SPDX-License-Identifier: Apache-2.0
"""Next-word model whose vocabulary is numbered in the order of a set, which the salted string hash
shuffles.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TEXT = """the mill stood by the river and the river turned the mill until one spring the river was low and the wheel
was still so the miller walked up the valley to find where the water had gone and found that a beaver had built a dam
across the stream the miller sat down and thought for a while then he went home and built a smaller wheel which the
small river could turn and from that day the mill ground slowly but it ground all year round"""

torch.manual_seed(7)
words = TEXT.split()
vocabulary = {word: i for i, word in enumerate(set(words))}  # CAUSE
ids = torch.tensor([vocabulary[word] for word in words])
loader = DataLoader(TensorDataset(ids[:-1], ids[1:]), batch_size=16, shuffle=True)


class NextWord(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = nn.Embedding(size, 24)
        self.hidden = nn.Linear(24, 48)
        self.out = nn.Linear(48, size)

    def forward(self, x):
        return self.out(torch.relu(self.hidden(self.embed(x))))


model = NextWord(len(vocabulary))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
step = 0
for epoch in range(4):
    for x, y in loader:  # ORIGIN
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
    print(f"epoch {epoch} steps {step} loss {loss.item():.4f}")
