#!/usr/bin/env bash
# A 95 % bootstrap interval of five runs holds the true mean in 85 % of all cases, of three in 75 %
#
# Version: rliable 1.2.0, scipy 1.17.1, numpy 2.4.6, pandas 2.3.3 (with pandas 3 rliable is not imported)
# Belief: A 95 % interval by the bootstrap, as papers on reinforcement learning ask for, is a 95 % interval; few runs make it
#   wide, not wrong.
# Seen: Of normal returns with a known mean, the interval of SciPy (percentile and BCa) and of rliable holds the mean in 74,
#   85 and 88 % of all cases for 3, 5 and 10 runs. Student's t holds it in 95 %. For three runs there are only ten different
#   resamples. And Wilcoxon's signed ranks of five pairs, all better, have p = 0.0625, which no data can lower.
# Means: Two methods of three runs each that differ in nothing have intervals apart far more often than one in twenty. Use t
#   for a mean of few runs, ten runs or more for a bootstrap, and six pairs or more for signed ranks.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rliable==1.2.0 pandas==2.3.3 scipy==1.17.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import logging

import numpy as np
from rliable import library
from scipy import stats

logging.disable(logging.WARNING)
draws, cases, resamples = np.random.default_rng(0), 600, 500
np.random.seed(0)
share = {}
for runs in (3, 5, 10):
    inside = dict.fromkeys(("percentile", "BCa", "rliable", "t"), 0)
    for _ in range(cases):
        returns = draws.standard_normal(runs)
        limits = {}
        for method in ("percentile", "BCa"):
            found = stats.bootstrap((returns,), np.mean, n_resamples=resamples, method=method, rng=draws)
            limits[method] = found.confidence_interval
        _, interval = library.get_interval_estimates({"a": returns[:, None]}, lambda x: np.array([x.mean()]), reps=resamples)
        limits["rliable"] = interval["a"][:, 0]
        half = stats.t.ppf(0.975, runs - 1) * returns.std(ddof=1) / runs**0.5
        limits["t"] = returns.mean() - half, returns.mean() + half
        for method, (low, high) in limits.items():
            inside[method] += bool(low <= 0 <= high)
    share[runs] = {method: count / cases for method, count in inside.items()}
    rounded = {method: round(value, 2) for method, value in share[runs].items()}
    print(f"{runs} runs, share of 95 % intervals with the true mean: {rounded}")
lowest = stats.wilcoxon([1, 2, 3, 4, 5], [0] * 5).pvalue
print("Wilcoxon of five pairs, all better: p =", lowest)
few = all(share[3][method] < 0.82 and share[5][method] < 0.91 for method in ("percentile", "BCa", "rliable"))
raise SystemExit(not (few and min(share[runs]["t"] for runs in share) > 0.92 and lowest > 0.05))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
