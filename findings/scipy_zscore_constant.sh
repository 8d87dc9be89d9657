#!/usr/bin/env bash
# Equal fitnesses have z-scores of NaN or of 1, by their number and value
#
# Version: SciPy 1.17.1, numpy 2.4.6
# Belief: SciPy's `zscore` of equal values is NaN, as its page says, or 0.
# Seen: Of 3, 10, 64 or 200 members of fitness 0.1 it is NaN, of 50 or 100 it is 1 for each, and of 1,000 members of 0.3 too: the mean
#   is off by its last bits, and the deviation is that error. Dividing by `std() + 1e-8` gives at most 1e-8.
# Means: On a plateau a step is nothing, NaN or a full one by the population size. Compare the largest and the smallest fitness first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from scipy import stats

seen = {}
for value in (0.1, 0.3, 1.0):
    for members in (3, 10, 50, 64, 100, 200, 1000):
        fitness = np.full(members, value)
        scores = stats.zscore(fitness)
        seen[value, members] = float(scores[0])
        careful = (fitness - fitness.mean()) / (fitness.std() + 1e-8)
        assert (scores == scores[0]).all() or np.isnan(scores).all()
        print(f"{members} members of {value}: z-score {scores[0]}, with 1e-8 {careful[0]:.1g}")
values = list(seen.values())
raise SystemExit(not (seen[0.1, 100] == 1 and np.isnan(seen[0.1, 3]) and np.isnan(seen[0.1, 10]) and all(np.isnan(seen[1.0, n]) for n in (3, 100, 1000))))
EOF
