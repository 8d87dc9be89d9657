#!/usr/bin/env bash
# Lightning's max_steps counts steps of its optimizers, however many batches those are
#
# Version: lightning 2.6.6, torch 2.14.1
# Belief: max_steps=6 ends training after six batches.
# Seen: With two optimizers that step in every batch it ends after three batches. With an update of your own under manual
#   optimization, without a step of a Lightning optimizer, it never ends: all batches of all epochs run and global_step
#   stays 0.
# Means: An update by evolution inside a LightningModule ignores max_steps, and checkpoints, schedules and loggers that go
#   by global_step see one step. Step through self.optimizers(), or count yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lightning==2.6.6 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
loader = DataLoader(TensorDataset(torch.randn(12, 3)), batch_size=4)


class Module(lightning.LightningModule):
    def __init__(self, optimizers):
        super().__init__()
        self.automatic_optimization, self.count, self.calls = False, optimizers, 0
        self.layers = nn.ModuleList(nn.Linear(3, 1) for _ in range(2))

    def training_step(self, batch, number):
        self.calls += 1
        with torch.no_grad():
            self.layers[0].weight += 0.1  # an update of one's own
        for optimizer in self.optimizers() if self.count else []:
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(layer.parameters(), 0.1) for layer in self.layers[: self.count]] or None


calls = {}
for optimizers in (2, 0):
    module = Module(optimizers)
    trainer = lightning.Trainer(
        max_steps=6, max_epochs=5, logger=False, accelerator="cpu", enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    )
    trainer.fit(module, loader)
    calls[optimizers] = (module.calls, trainer.global_step)
    print(f"{optimizers} optimizers, max_steps=6: {module.calls} batches, global_step {trainer.global_step}")
raise SystemExit(calls != {2: (3, 6), 0: (15, 0)})
EOF
