#!/usr/bin/env bash
# Fitnesses of 10,000 standardised by jax.nn are 300 times too large
#
# Version: jax 0.10.2
# Belief: `jax.nn.standardize` gives numbers of deviation 1: fitness shaping in one call.
# Seen: The variance is the mean of squares less the square of the mean, in float32. 1,000 fitnesses of deviation 1 have 1.04
#   after it around 1,000 and 309 around 10,000, of both signs and without NaN. `(f - f.mean()) / f.std()` has 1.00 in both.
# Means: A reward with an offset multiplies the step of a search by hundreds, and nothing is infinite. Subtract the mean before,
#   or give `mean` and `variance` by `jnp.mean` and `jnp.var`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

normal, seen = np.random.default_rng(0).standard_normal(1000), {}
for offset in (0, 1e3, 1e4, 1e6):
    fitness = jnp.asarray((offset + normal).astype(np.float32))
    by_hand = (fitness - fitness.mean()) / fitness.std()
    seen[offset] = round(float(np.std(np.asarray(jax.nn.standardize(fitness), np.float64))), 2), round(float(by_hand.std()), 2)
print("deviation after jax.nn.standardize, and by mean and std, by offset:", seen)
raise SystemExit(not (seen[0] == (1, 1) and 1.02 < seen[1e3][0] < 1.2 and all(seen[one][0] > 100 and 0.95 < seen[one][1] < 1.05 for one in (1e4, 1e6))))
EOF
