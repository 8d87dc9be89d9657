#!/usr/bin/env bash
# The AUROC of torchmetrics falls as a network grows sure
#
# Version: torchmetrics 1.9.0, scikit-learn 1.9.1, torch 2.14.1
# Belief: AUROC and average precision look at the order of the scores alone, so a positive factor changes nothing.
# Seen: Logits go through a sigmoid in float32 first, and those above 17 tie at 1. The same scores have 0.937 times 1 and
#   0.889 times 1,000; scikit-learn has 0.938 for both. From a factor of 40 on the value falls. Ties count a half.
# Means: Under evolution weights grow freely, and a fitness by AUROC punishes it, though the ranking is the same. Give it
#   ranks, or scores divided by their greatest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 scikit-learn==1.9.1 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from sklearn.metrics import roc_auc_score
from torchmetrics.classification import BinaryAUROC

generator = torch.Generator().manual_seed(1)
targets = torch.randint(0, 2, (1000,), generator=generator)
scores = (targets.float() - 0.5) * 0.6 + torch.randn(1000, generator=generator) * 0.3
values = {}
for factor in (1, 10, 40, 100, 1000):
    values[factor] = BinaryAUROC()(scores * factor, targets).item()
    print(f"scores times {factor}: torchmetrics {values[factor]:.4f}, scikit-learn {roc_auc_score(targets, scores * factor):.4f}")
raise SystemExit(abs(values[1] - values[10]) > 1e-3 or values[1] - values[1000] < 0.03)
EOF
