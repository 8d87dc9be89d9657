#!/usr/bin/env bash
# A resumed StatefulDataLoader gives the later batches the first batches' augmentation
#
# Version: torchdata 0.11.0, torch 2.14.1
# Belief: A loader that is restored from its state goes on as without the pause: the same examples with the same random transforms.
# Seen: The examples are right. Random numbers of the data set are those of the batches from the first on: with the same seed set before, the
#   resumed batches 3 to 6 have exactly the noise of 1 to 4. With two workers as with none.
# Means: After each resume the same augmentations and noise come again, and a run with a stop is another run. Draw from a generator
#   of the epoch and the example's index.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchdata==0.11.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader


class Noisy(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.tensor(float(index)), torch.rand(())


def loader(workers):
    torch.manual_seed(0)
    return StatefulDataLoader(Noisy(), batch_size=2, num_workers=workers)


def numbers(batches):
    pairs = list(batches)
    return [pair[0].tolist() for pair in pairs], [pair[1].tolist() for pair in pairs]


if __name__ == "__main__":
    holds = True
    for workers in (0, 2):
        complete, first = numbers(loader(workers)), loader(workers)
        batches = iter(first)
        for _ in range(2):
            next(batches)
        state = first.state_dict()
        resumed = loader(workers)
        resumed.load_state_dict(state)
        examples, noise = numbers(resumed)
        print(f"{workers} workers: examples of the rest {examples == complete[0][2:]}, noise of the rest {noise == complete[1][2:]}, of the first batches {noise == complete[1][:4]}")
        holds &= examples == complete[0][2:] and noise != complete[1][2:] and noise == complete[1][:4]
    raise SystemExit(not holds)
EOF
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py
