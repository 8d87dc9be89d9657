#!/usr/bin/env bash
# Runs with neighbouring seeds have each other's order of examples, one epoch later
#
# Version: torch 2.14.1, accelerate 1.15.0
# Belief: Five runs with the seeds 0 to 4 see the examples in orders of their own.
# Seen: torch's `DistributedSampler` and accelerate's seedable sampler shuffle by the sum of seed and epoch: epoch 1 of seed 1 is epoch 0 of
#   seed 2, and of five seeds over three epochs seven orders are distinct, not fifteen.
# Means: Means over seeds 0 to 4 are over runs that share most of their orders. Take seeds that lie further apart than a run has epochs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 accelerate==1.15.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

examples = TensorDataset(torch.arange(50))


def by_torch(seed):
    sampler, orders = DistributedSampler(examples, 2, 0, seed=seed), []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        orders.append(tuple(sampler))
    return orders


def by_accelerate(seed):
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True, data_seed=seed))
    loader = accelerator.prepare(DataLoader(examples, batch_size=5, shuffle=True))
    return [tuple(number for batch in loader for number in batch[0].tolist()) for _ in range(3)]


holds = True
for name, orders in (("DistributedSampler", by_torch), ("accelerate", by_accelerate)):
    runs = [orders(seed) for seed in range(5)]
    distinct = len({order for run in runs for order in run})
    print(f"{name}: epoch 1 of seed 1 is epoch 0 of seed 2: {runs[1][1] == runs[2][0]}; distinct orders of five seeds and three epochs: {distinct}")
    holds &= runs[1][1] == runs[2][0] and distinct == 7
raise SystemExit(not holds)
PROGRAM
