#!/usr/bin/env bash
# `gather_for_metrics` is right inside of the loop alone, and a mean loss has examples twice
#
# Version: accelerate 1.15.0, torch 2.14.1, numpy 2.4.6
# Belief: On two ranks it drops the examples that were added to fill the last batch.
# Seen: Of 11 examples in batches of two it gives 11 in the loop. Predictions that are collected and gathered after the loop are 12, and of
#   13 examples 16, with the first ones twice. Gathered means of the batches are 0.5, 2.5, 4.5, 6.5, 8.5 and 5.0 for the numbers 0 to 10:
#   the last one is the mean of 10 and 0. Of nine examples one rank's last mean is left out.
# Means: A test score over ranks depends on where it is gathered, and a mean loss on the number of ranks. Gather examples, never
#   means, in the loop.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet accelerate==1.15.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import os

import torch
import torch.multiprocessing as processes
from torch.utils.data import DataLoader


def rank(number, results):
    from accelerate import Accelerator

    os.environ.update(RANK=str(number), LOCAL_RANK=str(number))
    torch.set_num_threads(1)
    accelerator, seen = Accelerator(cpu=True), {}
    for count in (11, 13, 9):
        loader = accelerator.prepare(DataLoader(torch.arange(float(count)), batch_size=2))
        inside, means, batches = [], [], []
        for batch in loader:
            inside += accelerator.gather_for_metrics(batch).tolist()
            means += accelerator.gather_for_metrics(batch.mean()).reshape(-1).tolist()
            batches.append(batch)
        after = accelerator.gather_for_metrics(torch.cat(batches))
        seen[count] = len(inside), len(after), means
    if number == 0:
        results.put(seen)
    accelerator.end_training()


if __name__ == "__main__":
    os.environ.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29547", ACCELERATE_USE_CPU="true")
    results = processes.get_context("spawn").Queue()
    context = processes.spawn(rank, (results,), nprocs=2, join=False)
    seen = results.get()
    while not context.join():
        pass
    for count, (inside, after, means) in seen.items():
        print(count, "examples: in the loop", inside, "after it", after, "means", means)
    counts = {count: row[:2] for count, row in seen.items()}
    wrong = counts != {11: (11, 12), 13: (13, 16), 9: (9, 12)}
    raise SystemExit(wrong or seen[11][2] != [0.5, 2.5, 4.5, 6.5, 8.5, 5.0] or len(seen[9][2]) != 5)
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py"
