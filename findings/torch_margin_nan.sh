#!/usr/bin/env bash
# The multi-class margin losses of a diverged network are 0 in torch, the best there is, and its compiled one is NaN
#
# Version: torch 2.14.1
# Belief: A loss of outputs that are NaN is NaN, as cross-entropy, hinge and triplet losses are.
# Seen: `multi_margin_loss` and `multilabel_margin_loss` of NaN are 0 on a CPU, where one output of three is NaN too; under `torch.compile`
#   the first is NaN. The largest row of an `embedding_bag` in mode "max" is NaN if its first one is, and leaves a later one out.
# Means: The diverged member is the best of its generation, with a perfect loss. Look for NaN in outputs, not in the loss.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import math

import torch
import torch.nn.functional as F

nan, classes, one = torch.full((4, 3), math.nan), torch.tensor([0, 1, 2, 0]), torch.ones(4, 3)
part = nan.clone()
part[:, 1:] = torch.tensor([5.0, -5.0])
several = torch.tensor([[0, -1, -1]] * 4)
seen = {
    "multi_margin": F.multi_margin_loss(nan, classes),
    "multi_margin, one output of three": F.multi_margin_loss(part, torch.ones(4, dtype=torch.long)),
    "multilabel_margin": F.multilabel_margin_loss(nan, several),
    "cross_entropy": F.cross_entropy(nan, classes),
    "hinge_embedding": F.hinge_embedding_loss(nan, -one),
    "margin_ranking": F.margin_ranking_loss(nan, one, one),
    "triplet_margin": F.triplet_margin_loss(nan, one, one),
    "multilabel_soft_margin": F.multilabel_soft_margin_loss(nan, one),
}
for name, loss in seen.items():
    print(f"{name}: {loss.item()}")
rows = torch.tensor([[math.nan], [1.0], [2.0]])
bags = {order: F.embedding_bag(torch.tensor([order]), rows, mode="max").item() for order in ((0, 1), (1, 0), (1, 2, 0), (1, 0, 2))}
print("largest row of a bag with a NaN in row 0:", bags)
lost = [name for name, loss in seen.items() if loss == 0]
held = all(loss.isnan() for name, loss in seen.items() if name not in lost)
by_place = {math.isnan(value) for value in bags.values()} == {True, False}
raise SystemExit(not (lost == ["multi_margin", "multi_margin, one output of three", "multilabel_margin"] and held and by_place))
EOF
"$folder/venv/bin/python" -W ignore program.py
