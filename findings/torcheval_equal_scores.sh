#!/usr/bin/env bash
# A network whose outputs are all equal, or all NaN, has a perfect hit rate, reciprocal rank and top-k accuracy in torcheval
#
# Version: torcheval 0.0.7, torch 2.14.1 (CPU), numpy 2.4.6
# Belief: A dead network has the metrics of chance, and one with NaN outputs has NaN.
# Seen: The rank of the target is the number of scores above its own one. Where all scores are 0 or NaN there are none, so that hit rate
#   with k=1, reciprocal rank and the accuracy with k=2 are 1 for a hundred classes. The accuracy with k=1 takes the first class, and
#   the AUROC of NaN scores is a number near 0.5.
# Means: A search that maximises one of these finds the dead network, or the diverged one. Add noise far below the scores' size, and test
#   for finite outputs first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torcheval==0.0.7 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torcheval.metrics import functional

generator = torch.Generator().manual_seed(0)
targets = torch.randint(100, (1000,), generator=generator)
outputs = {
    "random": torch.randn(1000, 100, generator=generator),
    "zeros": torch.zeros(1000, 100),
    "NaN": torch.full((1000, 100), float("nan")),
}
seen = {}
for name, scores in outputs.items():
    seen[name] = [
        functional.hit_rate(scores, targets, k=1).mean().item(),
        functional.reciprocal_rank(scores, targets).mean().item(),
        functional.multiclass_accuracy(scores, targets, k=2).item(),
        functional.multiclass_accuracy(scores, targets).item(),
        functional.binary_auroc(scores[:, 0], (targets % 2).float()).item(),
    ]
    print(f"{name}: hit rate {seen[name][0]:.3f}, reciprocal rank {seen[name][1]:.3f}, accuracy with k=2 {seen[name][2]:.3f}, "
          f"with k=1 {seen[name][3]:.3f}, AUROC {seen[name][4]:.3f}")
perfect = [1.0, 1.0, 1.0]
raise SystemExit(not (seen["zeros"][:3] == perfect == seen["NaN"][:3] and max(seen["random"][:3]) < 0.1 and 0.4 < seen["NaN"][4] < 0.6))
PROGRAM
