# SPDX-License-Identifier: Apache-2.0
"""An autoencoder of Lightning, on data that the script makes itself."""

import argparse

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class AutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)
        )
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 32))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--resume")
    parser.add_argument("--strategy", default="auto")
    args = parser.parse_args()
    if args.seed is not None:
        L.seed_everything(args.seed)
    data = TensorDataset(torch.rand(256, 32, generator=torch.Generator().manual_seed(0)))
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        devices=1 if args.strategy == "auto" else 2,
        strategy=args.strategy,
        log_every_n_steps=4,
    )
    train, val = DataLoader(data, batch_size=32, shuffle=True), DataLoader(data, batch_size=64)
    trainer.fit(AutoEncoder(), train, val, ckpt_path=args.resume)
    trainer.save_checkpoint("last.ckpt")


if __name__ == "__main__":
    main()
