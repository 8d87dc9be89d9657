#!/usr/bin/env bash
# A random forest with two jobs predicts other bits in nearly every call
#
# Version: scikit-learn 1.9.1, numpy 2.4.6
# Belief: A fitted model with a fixed `random_state` is a function: the same inputs have the same outputs.
# Seen: Each thread adds its tree to one array when it is done, so the order of the sum is the threads'. Of 30 calls for 500 inputs with
#   `n_jobs=2` more than 20 differ in bits, and none has to be that of `n_jobs=1`, which is always the same.
# Means: A forest as surrogate or black box gives one candidate several fitnesses, ties break by chance, and a resumed search takes
#   another way. Fit with all cores, then set `n_jobs=1`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from sklearn.ensemble import RandomForestRegressor

generator = np.random.default_rng(0)
inputs = generator.normal(size=(3000, 20))
targets = inputs[:, 0] + generator.normal(size=3000)
forest = RandomForestRegressor(50, random_state=1, n_jobs=2, max_depth=6).fit(inputs, targets)
several = [forest.predict(inputs[:500]) for _ in range(30)]
forest.n_jobs = 1
alone = {forest.predict(inputs[:500]).tobytes() for _ in range(30)}
different = len({outputs.tobytes() for outputs in several})
spread = np.ptp(several, axis=0).max()
print(f"different results of 30 calls: {different} with two jobs (largest difference {spread:.1e}), {len(alone)} with one")
raise SystemExit(not (different > 1 and len(alone) == 1 and spread < 1e-12))
EOF
