# SPDX-License-Identifier: Apache-2.0
"""Small causal transformer on a synthetic language, with tied weights and gradient clipping."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, tokens=32, width=32, length=24):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.place = nn.Parameter(0.02 * torch.randn(length, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, tokens, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.out(self.layers(self.embed(tokens) + self.place, mask=mask, is_causal=True))


torch.manual_seed(6)
start = torch.randint(0, 32, (20, 16, 1))
text = (start + 3 * torch.arange(25)) % 32
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step, tokens in enumerate(text):
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.6f}")
