#!/usr/bin/env bash
# A weighted cross entropy is another number for the same targets, by whether they are classes or probabilities
#
# Version: torch 2.14.1
# Belief: A one-hot row is a target as its class is, so `cross_entropy(logits, targets, weight)` is one number for both.
# Seen: Without weights it is. With class weights the mean over class targets is divided by the weights of the targets, the mean over one-hot
#   rows by the number of rows: for weights of 1 to 100 the second is 30 times the first, and weights that are all 2 double it. With
#   label smoothing as an argument and with the same smoothing written into the rows it is the same.
# Means: A run with mixup or soft labels has another step size and another loss than one with classes, and two papers' losses are in other units.
#   Scale the weights to a mean of 1 over the targets, or compute the mean yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.nn.functional import cross_entropy, one_hot

generator = torch.Generator().manual_seed(0)
logits = torch.randn(300, 4, generator=generator)
classes = torch.randint(0, 4, (300,), generator=generator)
rows = one_hot(classes, 4).float()
seen = {}
for name, weight in {"none": None, "1, 1, 1, 1": [1.0] * 4, "2, 2, 2, 2": [2.0] * 4, "1, 10, 100, 10": [1.0, 10.0, 100.0, 10.0]}.items():
    weight = None if weight is None else torch.tensor(weight)
    for smoothing in (0.0, 0.1):
        by_class = cross_entropy(logits, classes, weight, label_smoothing=smoothing)
        by_row = cross_entropy(logits, rows, weight, label_smoothing=smoothing)
        written = cross_entropy(logits, (1 - smoothing) * rows + smoothing / 4, weight)
        sums = [cross_entropy(logits, target, weight, label_smoothing=smoothing, reduction="sum") for target in (classes, rows)]
        seen[name, smoothing] = float(by_row / by_class), float(written / by_row), float(sums[1] / sums[0])
        ratio, _, total = seen[name, smoothing]
        print(f"weights {name}, smoothing {smoothing}: classes {by_class:.4f}, rows {by_row:.4f}, ratio {ratio:.3f}, ratio of sums {total:.3f}")
same = all(abs(written - 1) < 1e-4 and abs(total - 1) < 1e-4 for _, written, total in seen.values())
plain = all(abs(seen[name, s][0] - 1) < 1e-4 for name in ("none", "1, 1, 1, 1") for s in (0.0, 0.1))
twice = all(abs(seen["2, 2, 2, 2", s][0] - 2) < 1e-4 for s in (0.0, 0.1))
raise SystemExit(not (same and plain and twice and seen["1, 10, 100, 10", 0.0][0] > 25))
PROGRAM
