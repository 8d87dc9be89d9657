#!/usr/bin/env bash
# Two algorithms with equal results: by baycomp the first one is better with a probability of 70 %
#
# Version: baycomp 1.0.3, scipy 1.17.1, numpy 2.4.6
# Belief: The Bayesian signed-rank test gives two algorithms with the same results on every problem half a probability each.
# Seen: `two_on_multiple(a, a)` with the default rope of 0 has 0.79 for the first and 0.21 for the second on one problem, 0.71 and 0.29 on
#   five, 0.70 and 0.30 on twenty, whichever algorithm is first: sums of weights that should be 0.5 are a little less, and such ties
#   count for the first. With a rope of 0.01 all goes to the rope. A NaN is taken too: of two wins and a NaN the loser has about half.
# Means: Saturated problems (all solved, or none) speak for the algorithm named first, and a diverged run for neither. Give a rope, and
#   look at the differences before the probabilities.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet baycomp==1.0.3 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import baycomp
import numpy as np

firsts = []
for problems in (1, 5, 20):
    first, _, second = baycomp.two_on_multiple(np.ones(problems), np.ones(problems))
    firsts.append(first)
    print(f"equal results on {problems} problems: first better {first:.2f}, second better {second:.2f}")
_, rope, _ = baycomp.two_on_multiple(np.ones(5), np.ones(5), rope=0.01)
print("with a rope of 0.01, probability of the rope:", rope)
clear = baycomp.two_on_multiple(np.array([1.0, 1.0, 1.0]), np.array([2.0, 2.0, 2.0]))
hidden = baycomp.two_on_multiple(np.array([1.0, 1.0, np.nan]), np.array([2.0, 2.0, 2.0]))
print(f"three losses: first better {clear[0]:.2f}; two losses and a NaN: {hidden[0]:.2f}")
raise SystemExit(not (all(0.6 < first < 0.9 for first in firsts) and rope == 1 and clear[0] < 0.01 and 0.2 < hidden[0] < 0.7))
EOF
