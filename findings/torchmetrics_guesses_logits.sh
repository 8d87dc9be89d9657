#!/usr/bin/env bash
# Whether torchmetrics reads a score as a logit depends on the other scores of its batch
#
# Version: torchmetrics 1.9.0, torch 2.14.1
# Belief: A metric of binary predictions reads what a network gives in one way, as logits or as probabilities.
# Seen: Each batch is looked at: if all its scores lie in [0, 1] they are probabilities and the threshold is 0.5, else all
#   are logits and it is 0. Accuracy of the same network is 0.59 with its logits as they are and 0.48 with three times them.
#   AUROC over two batches mixes both readings, and is not that of all scores at once.
# Means: Fitness jumps where a member's scores happen to lie inside, so small weights are another task than large ones, and
#   batch size changes a test metric. Apply the sigmoid yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torchmetrics.classification import BinaryAUROC, BinaryAccuracy

generator = torch.Generator().manual_seed(1)
targets = torch.randint(0, 2, (1000,), generator=generator)
noise = torch.randn(1000, generator=generator)
logits = 0.35 + 0.1 * (targets - 0.5) + 0.1 * noise.clamp(-2, 2)  # between 0 and 1: every one says class 1
assert 0 < logits.min() and logits.max() < 1
accuracy = [BinaryAccuracy()(logits * scale, targets).item() for scale in (1, 3)]
print(f"accuracy of the logits {accuracy[0]:.3f}, of three times them {accuracy[1]:.3f}")
parts = BinaryAUROC()
scores = torch.cat([logits[:500], logits[500:] * 3])
for start in (0, 500):
    parts.update(scores[start : start + 500], targets[start : start + 500])
apart, together = parts.compute().item(), BinaryAUROC()(scores, targets).item()
print(f"AUROC of the same scores in two batches {apart:.4f}, in one {together:.4f}")
raise SystemExit(abs(accuracy[0] - accuracy[1]) < 0.05 or abs(apart - together) < 0.001)
EOF
