# SPDX-License-Identifier: Apache-2.0
"""Batches that are dictionaries of ragged text, padded by a collate function; module outputs that
are dictionaries.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Texts(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(28)
        self.texts = [
            torch.randint(1, 50, (int(n),), generator=generator)
            for n in torch.randint(3, 12, (200,))
        ]

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return {
            "input_ids": self.texts[i],
            "label": int(self.texts[i].sum()) % 2,
            "title": f"text {i}",
        }


def collate(items):
    ids = nn.utils.rnn.pad_sequence([item["input_ids"] for item in items], batch_first=True)
    return {
        "input_ids": ids,
        "label": torch.tensor([item["label"] for item in items]),
        "title": [item["title"] for item in items],
    }


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, 2)

    def forward(self, batch):
        states, last = self.rnn(self.embed(batch["input_ids"]))
        return {"logits": self.out(last[0]), "states": states}


torch.manual_seed(28)
texts = Texts()
loader = DataLoader(
    texts, batch_size=10, collate_fn=collate, sampler=WeightedRandomSampler([1.0] * 200, 200)
)
model = Tagger()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
for batch in loader:
    loss = criterion(model(batch)["logits"], batch["label"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
