#!/usr/bin/env bash
# A constant prediction has a Matthews correlation of 0.41, or of 1, in torchmetrics
#
# Version: torchmetrics 1.9.0, scikit-learn 1.9.1, torch 2.14.1
# Belief: The correlation of a constant prediction is 0 (or undefined), as in scikit-learn: it is the metric that is not
#   fooled by majority classes.
# Seen: Predictions of class 1 alone have 0.41 for targets 0, 1, 1 and -0.08 for 1,000 targets of which 10 % are 1, where
#   scikit-learn gives 0. Where all targets are of class 1 too the result is 1. A small number is put in place of the
#   denominator's zero.
# Means: In small batches the network that answers the majority class beats those that have learnt a little, so evolution by
#   this fitness stays at it. Take 0 where a prediction is constant.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 scikit-learn==1.9.1 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from sklearn.metrics import matthews_corrcoef as sklearn
from torchmetrics.functional import matthews_corrcoef

CASES = {"0, 1, 1": torch.tensor([0, 1, 1]), "1, 1, 1": torch.ones(3, dtype=torch.int64), "10 % of 1,000": (torch.arange(1000) % 10 == 0).long()}
found = {}
for name, targets in CASES.items():
    ones = torch.ones_like(targets)
    found[name] = float(matthews_corrcoef(ones, targets, task="binary")), float(sklearn(targets, ones))
    print(f"all predicted 1, targets {name}: torchmetrics {found[name][0]:.3f}, scikit-learn {found[name][1]:.3f}")
rest = all(other == 0 for _, other in found.values())
raise SystemExit(not (rest and found["0, 1, 1"][0] > 0.3 and found["1, 1, 1"][0] == 1 and found["10 % of 1,000"][0] < -0.05))
EOF
