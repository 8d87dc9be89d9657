#!/usr/bin/env bash
# An error costs a macro average twice as much where it names a class that the batch lacks, by the library
#
# Version: torchmetrics 1.9.0, torcheval 0.0.7, scikit-learn 1.9.1, torch 2.14.1 (CPU), numpy 2.4.6
# Belief: Macro accuracy, which is the mean recall of the classes, is one number in three libraries, and says nothing on which wrong class was named.
# Seen: One error of four, with classes 0 and 1 in the targets. Where it names 1 all have 0.75. Where it names class 2, which no target has,
#   torchmetrics has 0.5, as its mean is over three classes, and scikit-learn's balanced accuracy and torcheval's macro accuracy have
#   0.75. Macro recall is 0.5 in torchmetrics and scikit-learn.
# Means: On small batches members are ranked by the classes that they name, and a score is not that of another library. Name the labels, or
#   evaluate on batches that have each class.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torcheval==0.0.7 scikit-learn==1.9.1 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import torch
from sklearn import metrics as learned
from torcheval.metrics import functional as evaluated
from torchmetrics import functional as measured

targets, macro = torch.tensor([0, 0, 1, 1]), {"average": "macro", "num_classes": 4}
seen = {}
for wrong in (0, 2):
    outputs = torch.tensor([0, 0, 1, wrong])
    values = {
        "torchmetrics accuracy": measured.accuracy(outputs, targets, task="multiclass", **macro),
        "torcheval accuracy": evaluated.multiclass_accuracy(outputs, targets, **macro),
        "scikit-learn balanced accuracy": learned.balanced_accuracy_score(targets, outputs),
        "torchmetrics recall": measured.recall(outputs, targets, task="multiclass", **macro),
        "scikit-learn recall": learned.recall_score(targets, outputs, average="macro"),
    }
    seen[wrong] = [round(float(value), 4) for value in values.values()]
    print(f"the error names class {wrong}:", ", ".join(f"{name} {value}" for name, value in zip(values, seen[wrong])))
raise SystemExit(not (seen[0] == [0.75] * 5 and seen[2] == [0.5, 0.75, 0.75, 0.5, 0.5]))
PROGRAM
