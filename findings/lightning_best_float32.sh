#!/usr/bin/env bash
# Lightning's best checkpoint is the best in float32: of losses above 1e8 the first of those that tie
#
# Version: lightning 2.6.6, torch 2.14.1
# Belief: `ModelCheckpoint(monitor="loss", save_top_k=1)` keeps the smallest of the Python floats that were logged.
# Seen: Of 1e8 + 3, 1e8 + 1 and 1e8 + 2 the first file is kept, with the score 1e8 + 0; of 1 + 3e-8, 1 and 1 + 1e-8 too. A NaN is replaced by the
#   first finite value.
# Means: Returns or losses with a large offset, and differences below 1e-7 of the value, choose the earliest epoch. Log the difference to
#   a fixed value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lightning==2.6.6 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging
import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self, losses):
        super().__init__()
        self.layer, self.losses = torch.nn.Linear(1, 1), losses

    def training_step(self, batch, index):
        return self.layer(batch[0]).mean()

    def on_train_epoch_end(self):
        self.log("loss", self.losses[self.current_epoch])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def best(name, losses):
    point = ModelCheckpoint(name, monitor="loss", save_top_k=1, filename="{epoch}")
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = lightning.Trainer(max_epochs=len(losses), accelerator="cpu", callbacks=[point], **quiet)
    trainer.fit(Net(losses), DataLoader(TensorDataset(torch.zeros(2, 1)), batch_size=2))
    print(losses, "->", os.path.basename(point.best_model_path), point.best_model_score.item())
    return os.path.basename(point.best_model_path)


large, near = best("large", [1e8 + 3, 1e8 + 1, 1e8 + 2]), best("near", [1 + 3e-8, 1.0, 1 + 1e-8])
apart, finite = best("apart", [3.0, 1.0, 2.0]), best("finite", [float("nan"), 2.0, 3.0])
raise SystemExit((large, near, apart, finite) != ("epoch=0.ckpt", "epoch=0.ckpt", "epoch=1.ckpt", "epoch=1.ckpt"))
EOF
