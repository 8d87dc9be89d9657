#!/usr/bin/env bash
# A Beta draw of concentration 1e-5 is 0.5, where it should be 0 or 1, and a Dirichlet draw is a third each
#
# Version: torch 2.14.1, float32
# Belief: The smaller the concentration, the nearer are draws of Beta and Dirichlet to a corner: one number is 1, the others 0.
# Seen: Down to 1e-2 that holds. At 1e-3 the deviation of Beta is 0.435 in place of 0.4995, and at 1e-5 it is 0.06: nearly all draws are
#   exactly 0.5. Dirichlet's are exactly a third each. The gamma draws behind them lie below float32's smallest number, are set to it,
#   and their shares are equal. There is no NaN and no zero. In float64 the same begins at 1e-4.
# Means: Priors that should pick one member, expert or augmentation mix all of them equally. Draw in logarithms.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch.distributions import Beta, Dirichlet

torch.manual_seed(0)
seen = {}
for concentration in (1e-2, 1e-3, 1e-5):
    c = torch.tensor(concentration)
    beta = Beta(c, c).sample((100_000,))
    thirds = Dirichlet(c.expand(3)).sample((100_000,))
    right = (1 / (4 * (2 * concentration + 1))) ** 0.5
    seen[concentration] = beta.std().item(), (beta == 0.5).float().mean().item(), thirds.max(1).values.mean().item()
    print(f"concentration {concentration}: deviation {seen[concentration][0]:.4f}, should be {right:.4f}; exactly 0.5: {seen[concentration][1]:.3f};", end=" ")
    print(f"mean of the largest of three {seen[concentration][2]:.4f}")
as_seen = abs(seen[1e-2][0] - 0.495) < 0.005 and 0.42 < seen[1e-3][0] < 0.45 and seen[1e-5][0] < 0.08 and seen[1e-5][1] > 0.97
raise SystemExit(not (as_seen and seen[1e-2][2] > 0.98 and seen[1e-5][2] < 0.36))
EOF
"$folder/venv/bin/python" -W ignore program.py
