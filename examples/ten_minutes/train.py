"""Learns whether a review is a good or a bad one, from its words."""

import random

import torch
from torch import nn

random.seed(1)
torch.manual_seed(1)

GOOD = "fine warm quick bright honest lovely solid clear fresh kind".split()
BAD = "dull cold slow grey false nasty flimsy muddy stale rude".split()
OTHER = "the a it was place staff room meal we had very rather again day food".split()


def review():
    good = random.random() < 0.5
    words = random.choices(OTHER, k=6) + random.choices(GOOD if good else BAD, k=2)
    return " ".join(words), float(good)


reviews = [review() for _ in range(256)]
words = {word for text, _ in reviews for word in text.split()}
number = {word: i for i, word in enumerate(words)}

net = nn.Sequential(nn.EmbeddingBag(len(number), 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
loss_of = nn.BCEWithLogitsLoss()

for epoch in range(4):
    for at in range(0, len(reviews), 32):
        texts, labels = zip(*reviews[at : at + 32])
        batch = torch.tensor([[number[word] for word in text.split()] for text in texts])
        optimizer.zero_grad()
        loss = loss_of(net(batch).squeeze(1), torch.tensor(labels))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
