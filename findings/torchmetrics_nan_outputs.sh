#!/usr/bin/env bash
# A network whose outputs are all NaN has a fine accuracy, AUROC and rank correlation in torchmetrics
#
# Version: torchmetrics 1.9.0, torch 2.14.1
# Belief: NaN in the predictions makes a metric NaN, or an error.
# Seen: With NaN for every output, Accuracy of many classes is the share of class 0 (argmax of NaN), binary Accuracy the
#   share of negatives, AUROC a number. SpearmanCorrCoef of four predictions of which one is NaN is 0.8. MeanSquaredError
#   alone is NaN.
# Means: A diverged member has an ordinary fitness, at worst that of the majority class, and no check of fitnesses sees it.
#   Check the outputs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import math

import torch
import torchmetrics as tm

nan = torch.full((4,), math.nan)
zeros, mixed = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 1, 0, 1])
found = {
    "Accuracy, 3 classes, all of class 0": tm.Accuracy(task="multiclass", num_classes=3)(nan[:, None].expand(4, 3), zeros),
    "Accuracy, binary, all negative": tm.Accuracy(task="binary")(nan, zeros),
    "AUROC": tm.AUROC(task="binary")(nan, mixed),
    "SpearmanCorrCoef, one of four NaN": tm.SpearmanCorrCoef()(torch.tensor([1.0, 2, math.nan, 4]), torch.tensor([1.0, 2, 3, 4])),
    "MeanSquaredError": tm.MeanSquaredError()(nan, torch.zeros(4)),
}
found = {name: float(value) for name, value in found.items()}
for name, value in found.items():
    print(f"{name}: {value}")
*finite, last = found.values()
raise SystemExit(not (finite[:2] == [1, 1] and all(math.isfinite(value) for value in finite) and math.isnan(last)))
EOF
