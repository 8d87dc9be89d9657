#!/usr/bin/env bash
# Retrieval metrics of torchmetrics take no document with a score below or at 0 for relevant
#
# Version: torchmetrics 1.9.0, torch 2.14.1
# Belief: A ranking is scored by its order: logits, distances with a minus and probabilities give the same.
# Seen: Documents with a score of 0 or less count as irrelevant in reciprocal rank, average precision, precision and recall:
#   the perfect order -1, -2, -3, -4 has 0 in all four, the same order plus 5 has 1, and a hit rate and NDCG of 1 in both. A
#   relevant document on the last place has a reciprocal rank of 0 instead of 0.25.
# Means: Fitness by one of the four rewards large outputs, not order: adding a constant to the scores is the first thing
#   that evolution learns, and a network whose logits are mostly negative has 0 whatever it ranks. Give a sigmoid's outputs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchmetrics==1.9.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torchmetrics.functional import retrieval as metrics

relevant = torch.tensor([1, 0, 0, 0])
scores = torch.tensor([-1.0, -2, -3, -4])
found = {}
for name in ("reciprocal_rank", "average_precision", "precision", "recall", "hit_rate", "normalized_dcg"):
    score = getattr(metrics, f"retrieval_{name}")
    options = {"top_k": 1} if name in ("precision", "recall") else {}
    found[name] = float(score(scores, relevant, **options)), float(score(scores + 5, relevant, **options))
    print(f"{name}: perfect order with negative scores {found[name][0]:.2f}, plus 5 {found[name][1]:.2f}")
lost = all(found[name] == (0, 1) for name in ("reciprocal_rank", "average_precision", "precision", "recall"))
raise SystemExit(not (lost and found["hit_rate"] == (1, 1) and found["normalized_dcg"] == (1, 1)))
EOF
