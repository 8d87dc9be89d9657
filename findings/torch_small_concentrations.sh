#!/usr/bin/env bash
# A Beta draw of concentration 1e-5 is 0.5, where it should be 0 or 1, and a Dirichlet draw is a third each
#
# Version: torch 2.14.1, float32 and float64
# Belief: The smaller the concentration, the nearer are draws of Beta and Dirichlet to a corner: one number is 1, the others 0.
# Seen: Down to 1e-2 that holds. At 1e-3 the deviation of Beta is 0.435 in place of 0.4995, and at 1e-5 it is 0.06: nearly all draws are
#   exactly 0.5. Dirichlet's are exactly a third each. The gamma draws behind them lie below the smallest float64, are set to it, and
#   their shares are equal. There is no NaN and no zero. Float32 and float64 have the same.
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
for concentration, dtype in ((1e-2, torch.float32), (1e-3, torch.float32), (1e-5, torch.float32), (1e-5, torch.float64)):
    c = torch.tensor(concentration, dtype=dtype)
    beta = Beta(c, c).sample((100_000,))
    thirds = Dirichlet(c.expand(3)).sample((100_000,))
    right = (1 / (4 * (2 * concentration + 1))) ** 0.5
    seen[concentration, dtype] = found = beta.std().item(), (beta == 0.5).float().mean().item(), thirds.max(1).values.mean().item()
    print(f"concentration {concentration} in {dtype}: deviation {found[0]:.4f}, should be {right:.4f}; exactly 0.5: {found[1]:.3f};", end=" ")
    print(f"mean of the largest of three {found[2]:.4f}")
large, middle, small, double = seen.values()
as_seen = 0.42 < middle[0] < 0.45 and all(each[0] < 0.08 and each[1] > 0.97 and each[2] < 0.36 for each in (small, double))
raise SystemExit(not (as_seen and abs(large[0] - 0.495) < 0.005 and large[2] > 0.98))
EOF
"$folder/venv/bin/python" -W ignore program.py
