#!/usr/bin/env bash
# A run that accelerate resumes in its second epoch goes on with the first epoch's order, or with the third's
#
# Version: accelerate 1.15.0, torch 2.14.1
# Belief: `save_state`, `load_state` and `skip_first_batches` go on with the examples that are left of the epoch, then with the next epoch.
# Seen: With the seedable sampler the rest of epoch 1 is in epoch 0's order, and epoch 0 comes once more after it. Without it the rest has epoch
#   2's order, so that some examples are seen twice in the epoch and others never. A state that was saved between epochs is
#   right without the seedable sampler, and begins with epoch 0 again with it.
# Means: A run with a stop is another run, also where all generators are restored. Call `set_epoch` of the loader before each epoch, with the seedable
#   sampler.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet accelerate==1.15.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

examples = TensorDataset(torch.arange(12))


def begun(seedable):
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=seedable))
    set_seed(1)
    loader = accelerator.prepare(DataLoader(examples, batch_size=4, shuffle=True))
    accelerator.prepare(torch.nn.Linear(1, 1))
    return accelerator, loader


def batches(loader):
    return [batch[0].tolist() for batch in loader]


holds = True
for seedable, expected in ((True, (0, 0, 0)), (False, (2, 3, 2))):
    _, loader = begun(seedable)
    epochs = [batches(loader) for _ in range(4)]
    name = lambda found: [epoch for epoch, order in enumerate(epochs) if found in (order, order[1:])][0]
    accelerator, loader = begun(seedable)
    batches(loader)
    next(iter(loader))
    accelerator.save_state(f"middle{seedable}")
    accelerator, loader = begun(seedable)
    accelerator.load_state(f"middle{seedable}")
    rest, after = batches(accelerator.skip_first_batches(loader, 1)), batches(loader)
    accelerator, loader = begun(seedable)
    for _ in range(2):
        batches(loader)
    accelerator.save_state(f"between{seedable}")
    accelerator, loader = begun(seedable)
    accelerator.load_state(f"between{seedable}")
    found = name(rest), name(after), name(batches(loader))
    print(f"seedable sampler {seedable}: the rest of epoch 1 is that of epoch {found[0]}, the next one is {found[1]}; saved after epoch 1 it goes on with {found[2]}")
    holds &= found == expected
raise SystemExit(not holds)
PROGRAM
