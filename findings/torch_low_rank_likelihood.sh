#!/usr/bin/env bash
# The log likelihood of a low-rank normal distribution is off by thousands in float32, where its entropy is right
#
# Version: torch 2.14.1
# Belief: `LowRankMultivariateNormal` is right in float32 as far as its numbers have digits; its entropy is.
# Seen: For 50 numbers, factors of size 1 and a diagonal of 1e-4 a drawn point's log likelihood is off by up to 0.3, at 1e-6 by 30 and at
#   1e-8 by thousands (4,488 in place of 349), with no word; with the same factors the entropy is right to 1e-4. The squared length of what the factors explain is
#   subtracted from that of the point, and both are of the size 1 / diagonal.
# Means: A search distribution with a low-rank covariance (natural gradients, importance weights, evidence) compares noise once one
#   direction has a hundred times the deviation of the others. Use float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch.distributions import LowRankMultivariateNormal

torch.manual_seed(0)
errors = {}
for diagonal in (1e-2, 1e-4, 1e-6, 1e-8):
    worst, entropy, pair = 0.0, 0.0, None
    for _ in range(20):
        factors, rest = torch.randn(50, 2), torch.full((50,), diagonal)
        exact = LowRankMultivariateNormal(torch.zeros(50).double(), factors.double(), rest.double())
        single = LowRankMultivariateNormal(torch.zeros(50), factors, rest)
        point = exact.sample().float()
        got, right = single.log_prob(point).item(), exact.log_prob(point.double()).item()
        if abs(got - right) > worst:
            worst, pair = abs(got - right), (got, right)
        entropy = max(entropy, abs(single.entropy().item() - exact.entropy().item()))
    errors[diagonal] = worst, entropy
    print(f"diagonal {diagonal}: largest error of 20 log likelihoods {worst:.3g} ({pair[0]:.0f}, should be {pair[1]:.0f}), of entropies {entropy:.2g}")
raise SystemExit(not (errors[1e-2][0] < 0.02 and errors[1e-6][0] > 10 and errors[1e-8][0] > 1000 and errors[1e-8][1] < 1e-3))
EOF
"$folder/venv/bin/python" -W ignore program.py
