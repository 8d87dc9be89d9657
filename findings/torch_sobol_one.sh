#!/usr/bin/env bash
# torch's Sobol numbers are 1 once in some ten millions, so that a normal draw is infinite
#
# Version: torch 2.14.1
# Belief: A scrambled Sobol sequence lies in [0, 1): the inverse of the normal distribution of it is finite.
# Seen: The engine counts in 30 bits and rounds to float32, which has 24: numbers above 1 - 2**-25 become 1.0. Of 1.7e8
#   numbers nine are exactly 1, none is 0. Normal.icdf of them is infinite. In float64 none is 1.
# Means: Quasi-random noise for a network of ten million weights has an infinite one every few members, and then the estimate
#   is NaN. Ask for dtype=torch.float64, or clamp to 1 - 2**-24 before the inverse.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from torch.quasirandom import SobolEngine

count, ones, infinite, doubles = 0, 0, 0, 0
for seed in range(40):
    numbers = SobolEngine(64, scramble=True, seed=seed).draw(1 << 16)
    count, top = count + numbers.numel(), int((numbers == 1).sum())
    ones += top
    if top:
        infinite += int(torch.distributions.Normal(0.0, 1.0).icdf(numbers).isinf().sum())
        doubles += int((SobolEngine(64, scramble=True, seed=seed).draw(1 << 16, dtype=torch.float64) == 1).sum())
print(f"of {count:.2e} numbers {ones} are exactly 1; {infinite} normal draws are infinite; in float64 {doubles} are 1")
raise SystemExit(not (ones > 0 and infinite == ones and doubles == 0))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
