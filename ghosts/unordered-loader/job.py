# SPDX-License-Identifier: Apache-2.0
"""Documents of very different length are tokenised in the loader's workers, and so that none waits
for a long one, batches are trained on as they are ready.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DOCUMENTS = 96
WORKERS = 2


class Documents(Dataset):
    def __len__(self):
        return DOCUMENTS

    def __getitem__(self, number):
        """The work depends on the document, as with real ones."""
        total = 0
        for k in range(500 + 6_000 * (number * 7 % 5)):
            total = (total * 31 + k + number) % 10_007
        words = torch.tensor([(total * (k + 1)) % 97 / 97 for k in range(16)])
        return words, words.sum()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Documents(), batch_size=4, num_workers=WORKERS, in_order=False)
    for step, (words, sums) in enumerate(loader):
        loss = nn.functional.mse_loss(model(words).squeeze(1), sums)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")
    print("result", model.weight.sum().item().hex())


if __name__ == "__main__":
    main()
