#!/usr/bin/env bash
# A Lightning run that is resumed in the middle of a shuffled epoch trains on some examples twice and on others never
#
# Version: lightning 2.6.6, torch 2.14.1
# Belief: A checkpoint of step 6 of 12 holds where the run was, so that the rest of the epoch has the examples that were left, or the epoch
#   begins again.
# Seen: The resumed run takes as many batches as were left, from a fresh shuffle, so that of eight examples two come twice and two
#   never in that epoch, and its random numbers are those of the first steps.
# Means: A preempted run sees another set of examples in that epoch, and repeats its noise. Save at the end of epochs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lightning==2.6.6 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen, self.noise = torch.nn.Linear(1, 1), [], []

    def training_step(self, batch, index):
        self.seen.append(sorted(int(value) for value in batch[0]))
        self.noise.append(torch.rand(()).item())
        return self.layer(batch[0]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def run(callbacks, checkpoint=None):
    lightning.seed_everything(1, verbose=False)
    net = Net()
    loader = DataLoader(TensorDataset(torch.arange(8.0)[:, None]), batch_size=2, shuffle=True)
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=bool(callbacks))
    lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=callbacks, **quiet).fit(net, loader, ckpt_path=checkpoint)
    return net


complete = run([ModelCheckpoint("points", every_n_train_steps=6, save_top_k=-1, filename="{step}")])
resumed = run([], "points/step=6.ckpt")
before, after, rest = complete.seen[4:6], resumed.seen[:2], complete.seen[6:8]
epoch = sorted(value for batch in before + after for value in batch)
print("second epoch before the checkpoint", before, "and left", rest, "| resumed", after, "| examples of that epoch", epoch)
print("noise of the resumed run is the first steps':", resumed.noise[:2] == complete.noise[:2], "| steps after the checkpoint:", len(resumed.seen))
raise SystemExit(not (len(resumed.seen) == 6 and sorted(after) != sorted(rest) and len(set(epoch)) < 8 and resumed.noise[:2] == complete.noise[:2]))
EOF
