#!/usr/bin/env bash
# Distances to an archive of 26 points are wrong where those to 25 are right
#
# Version: torch 2.14.1, numpy 2.4.6; AMD Zen 4
# Belief: `torch.cdist` gives the distance of each pair, whatever else is in the batch.
# Seen: From 26 rows on it subtracts squares instead of coordinates. Of float32 points near (1000, 1000) that lie 0.17 apart
#   on average more than half of the distances are 0 with 26 points, others are off by 0.5; with 25 points all have seven
#   digits. Near 100 a third of the novelties are off by more than a tenth. `compute_mode="donot_use_mm_for_euclid_dist"` is
#   right for all.
# Means: As the archive of a novelty search grows beyond 25 points its scores become those of rounding: most members are as
#   novel as a copy. Name the mode, or subtract the mean first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

PLAIN = "donot_use_mm_for_euclid_dist"
zeros, errors = {}, {}
for offset in (100.0, 1000.0):
    for rows in (25, 26):
        points = torch.randn(rows, 2, generator=torch.Generator().manual_seed(0)) * 0.1 + offset
        exact = torch.cdist(points.double(), points.double(), compute_mode=PLAIN)
        found, named = torch.cdist(points, points), torch.cdist(points, points, compute_mode=PLAIN)
        apart = ~torch.eye(rows, dtype=torch.bool)
        nearest = [distances.topk(6, largest=False)[0][:, 1:].mean(1) for distances in (found, exact)]
        zeros[offset, rows] = float((found == 0)[apart].double().mean())
        errors[offset, rows] = float((found - exact).abs().max()), float((named - exact).abs().max())
        wrong = float(((nearest[0] / nearest[1] - 1).abs() > 0.1).double().mean())
        print(f"near {offset:.0f}, {rows} rows: distances of 0, novelties off by a tenth: {zeros[offset, rows]:.0%} {wrong:.0%}")
        print(f"    largest error, and by name: {errors[offset, rows][0]:.2g} {errors[offset, rows][1]:.2g}")
right = all(errors[offset, 25][0] < 1e-6 and errors[offset, rows][1] < 1e-6 for offset in (100.0, 1000.0) for rows in (25, 26))
raise SystemExit(not right or zeros[1000.0, 26] < 0.4 or errors[1000.0, 26][0] < 0.3 or errors[100.0, 26][0] < 0.02)
EOF
