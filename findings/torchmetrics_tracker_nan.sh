#!/usr/bin/env bash
# torchmetrics' `best_metric` is the NaN, whether small or large is better, and a mean over a diverged run is a number
#
# Version: torchmetrics 1.9.0, torch 2.14.1, numpy 2.4.6
# Belief: `MetricTracker.best_metric` is the best number, and a mean with a NaN is NaN.
# Seen: Of the errors 2, NaN, 1 and 3 the best one is NaN at step 1, with `maximize=False` and `True`. The defaults of `MeanMetric`,
#   `SumMetric` and `MaxMetric` leave NaN out with a warning; of NaN alone the sum is 0 and the maximum minus infinity.
#   `nan_strategy="error"` raises.
# Means: A tracker names the diverged generation as the best one for the rest of the run, while the aggregate hides it. Look at the numbers
#   with `isfinite` before they are tracked.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import warnings

import torch
import torchmetrics

warnings.simplefilter("ignore")
errors, best = (2.0, float("nan"), 1.0, 3.0), {}
for largest in (False, True):
    tracker = torchmetrics.MetricTracker(torchmetrics.MeanAbsoluteError(), maximize=largest)
    for value in errors:
        tracker.increment()
        tracker.update(torch.tensor([value]), torch.tensor([0.0]))
    best[largest] = tracker.best_metric(return_step=True)
print("best of", errors, "as a minimum and as a maximum, with its step:", best)
aggregates = {}
for kind in (torchmetrics.MeanMetric, torchmetrics.SumMetric, torchmetrics.MaxMetric):
    some, none = kind(), kind()
    for value in errors:
        some.update(value)
    none.update(float("nan"))
    aggregates[kind.__name__] = float(some.compute()), float(none.compute())
print("aggregates of all and of one NaN:", aggregates)
wrong = any(step != 1 or value == value for value, step in best.values())
numbers = aggregates["MeanMetric"][0], aggregates["SumMetric"], aggregates["MaxMetric"]
raise SystemExit(wrong or numbers != (2.0, (6.0, 0.0), (3.0, -float("inf"))))
EOF
