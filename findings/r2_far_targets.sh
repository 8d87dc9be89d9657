#!/usr/bin/env bash
# For targets near 100,000 a model with an R2 of 0.76 has 0.9998 in torchmetrics and torcheval, and near 10,000 minus infinity, 0 or 1.01
#
# Version: torchmetrics 1.9.0, torcheval 0.0.7, scikit-learn 1.9.1, torch 2.14.1 (CPU), numpy 2.4.6
# Belief: R2 and explained variance do not change where a constant is added to targets and predictions, up to float32.
# Seen: Both libraries take the variance from sums of squares in float32. With a deviation of 1 and an error of 0.5 R2 is right up to a
#   constant of 100, wrong in the second digit at 1,000, anything at 10,000, and 0.998 and 0.9998 from 30,000 on, where scikit-learn
#   has 0.75 in float32 too. torchmetrics' explained variance and, in batches, normalised error are wrong likewise, and its correlation is not.
# Means: Targets such as pressures, years or energies make any model a nearly perfect one, with no word. Subtract a constant from both sides
#   before the metric sees them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torcheval==0.0.7 scikit-learn==1.9.1 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
import torcheval.metrics
import torchmetrics
from sklearn.metrics import r2_score
from torcheval.metrics import functional as evaluated
from torchmetrics import functional as measured

torch.manual_seed(0)
seen = {}
for offset in (0, 100, 1_000, 10_000, 30_000, 100_000):
    targets = torch.randn(1000) + offset
    outputs = targets + 0.5 * torch.randn(1000)
    batched = [torchmetrics.R2Score(), torcheval.metrics.R2Score(), torchmetrics.NormalizedRootMeanSquaredError(normalization="std")]
    for metric in batched:
        for part in zip(outputs.split(100), targets.split(100)):
            metric.update(*part)
    values = {
        "scikit-learn": r2_score(targets, outputs),
        "torchmetrics": measured.r2_score(outputs, targets),
        "in batches": batched[0].compute(),
        "torcheval": evaluated.r2_score(outputs, targets),
        "torcheval in batches": batched[1].compute(),
        "explained variance": measured.explained_variance(outputs, targets),
        "normalised error": batched[2].compute(),
        "correlation": measured.pearson_corrcoef(outputs, targets),
    }
    seen[offset] = {name: float(value) for name, value in values.items()}
    print(offset, ", ".join(f"{name} {value:.4f}" for name, value in seen[offset].items()))
wrong = ("torchmetrics", "in batches", "torcheval", "torcheval in batches", "explained variance")
holds = all(0.7 < values["scikit-learn"] < 0.8 and 0.88 < values["correlation"] < 0.91 for values in seen.values())
holds &= all(seen[100_000][name] > 0.999 and abs(seen[10_000][name] - 0.75) > 0.2 and 0.7 < seen[0][name] < 0.8 for name in wrong)
holds &= seen[100_000]["normalised error"] < 0.3 and 0.4 < seen[0]["normalised error"] < 0.6
raise SystemExit(not holds)
PROGRAM
