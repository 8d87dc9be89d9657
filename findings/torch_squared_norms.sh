#!/usr/bin/env bash
# A vector of 1e19 has a unit vector of zeros in torch, and one of 1e-9 is not similar to itself
#
# Version: torch 2.14.1, float32
# Belief: `normalize` gives a vector of length 1, and the cosine similarity of a vector with itself is 1; `hypot` is right at 1e38.
# Seen: Norms square without scaling. Of four numbers of 1e19 the norm is infinite, the unit vector 0 and the cosine similarity 0; of
#   1e-23 the norm is 0. At 1e-13 `normalize` has a length of 0.2, and at 1e-9 the similarity of a vector with itself is 0.04, as both
#   divide by a smallest number. `hypot` and complex sizes are right.
# Means: A behaviour or an embedding that diverges becomes the zero vector, finite and similar to nothing, so that novelty by cosine takes it
#   for ordinary; and small ones are as different from themselves as from others. Check the length first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
import torch.nn.functional as F


def four(value):
    return torch.full((4,), value)


unit = {value: F.normalize(four(value), dim=0).norm().item() for value in (1e-13, 1e-6, 1e18, 1e19)}
same = {value: F.cosine_similarity(four(value), four(value), dim=0).item() for value in (1e-9, 1e-6, 1e18, 1e19)}
norms = {value: four(value).norm().item() for value in (1e-23, 1e18, 1e20)}
whole = torch.hypot(torch.tensor(1e20), torch.tensor(1e20)).item()
print("length of the unit vector:", unit)
print("cosine similarity with itself:", same)
print("norms of four:", norms, "hypot of 1e20 and 1e20:", whole)
as_seen = unit[1e19] == 0 and abs(unit[1e-13] - 0.2) < 1e-3 and same[1e19] == 0 and abs(same[1e-9] - 0.04) < 1e-3
right = abs(unit[1e-6] - 1) < 1e-5 and abs(same[1e-6] - 1) < 1e-5 and abs(whole / 1.4142e20 - 1) < 1e-3
raise SystemExit(not (as_seen and right and norms[1e-23] == 0 and norms[1e20] == float("inf")))
EOF
"$folder/venv/bin/python" -W ignore program.py
