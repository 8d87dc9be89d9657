#!/usr/bin/env bash
# The interquartile mean of three runs is their mean
#
# Version: scipy 1.17.1, numpy 2.4.6
# Belief: scipy.stats.trim_mean(x, 0.25), the usual interquartile mean of returns, leaves out the lowest and the highest
#   quarter.
# Seen: The number of runs to leave out is rounded down: none of three, one on each side of 4 to 7. Of seven it cuts 14 % a
#   side. For the returns 0, 1 and 100 it gives 33.7, where an interquartile mean by weights, which takes parts of runs, gives
#   17.3.
# Means: One outlier of three seeds decides a comparison that was to be robust against it, and a table over 3, 5 and 8 seeds
#   mixes three estimators. Use numbers of runs that 4 divides, pooled over tasks, or weights.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from scipy.stats import trim_mean


def by_weights(returns):
    """Return the mean of the part of sorted returns between the quartiles, with parts of runs."""
    number, edges = len(returns), np.arange(len(returns) + 1.0)
    weights = np.clip(np.minimum(edges[1:], 0.75 * number) - np.maximum(edges[:-1], 0.25 * number), 0, None)
    return float(weights @ np.sort(returns) / weights.sum())


three = np.array([0.0, 1.0, 100.0])
cut = {}
for number in (3, 4, 5, 7, 8):
    powers = 10.0 ** np.arange(number)
    left_out = [side for side in range(number // 2) if np.isclose(trim_mean(powers, 0.25), powers[side : number - side].mean())]
    cut[number] = left_out[0]
    print(f"{number} runs: trim_mean leaves out {cut[number]} a side, {cut[number] / number:.0%}")
print(f"returns 0, 1, 100: mean {three.mean():.2f}, trim_mean {trim_mean(three, 0.25):.2f}, by weights {by_weights(three):.2f}")
raise SystemExit(cut != {3: 0, 4: 1, 5: 1, 7: 1, 8: 2} or not np.isclose(trim_mean(three, 0.25), three.mean()))
EOF
