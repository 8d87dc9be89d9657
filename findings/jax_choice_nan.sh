#!/usr/bin/env bash
# `jax.random.choice` takes a diverged member each time, and members of probability 0 where few are left
#
# Version: jax 0.10.2, ml_dtypes 0.6.0, numpy 2.4.6
# Belief: As in numpy, probabilities with NaN, with a sum of 0, or too few of them for a draw without replacement are refused.
# Seen: With one NaN among five probabilities it is drawn in 30 of 30 draws, `categorical` with a NaN logit likewise. Probabilities
#   that are all 0 give member 0 always. Three of five members are drawn without replacement where two have a probability: the third
#   one has 0. numpy refuses all three. Of 1,000 members with equal probabilities in bfloat16 only 128 are ever drawn.
# Means: A selection in proportion to fitness chooses the diverged member as the parent of all, and selects dead ones at the end. Replace
#   NaN by 0, count the positive ones, and cast to float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

keys = [jax.random.key(seed) for seed in range(30)]
broken = jnp.array([0.25, 0.25, jnp.nan, 0.25, 0.25])
drawn = {int(jax.random.choice(key, 5, p=broken)) for key in keys}
named = {int(jax.random.categorical(key, broken)) for key in keys}
dead = {int(jax.random.choice(key, 5, p=jnp.zeros(5))) for key in keys}
few = jax.random.choice(keys[0], 5, (3,), replace=False, p=jnp.array([0.5, 0.5, 0, 0, 0])).tolist()
print("a NaN at place 2: choice draws", drawn, "categorical", named, "all zero:", dead, "three of two:", few)
many = {}
for kind in (jnp.float32, jnp.bfloat16):
    many[kind.__name__] = len(np.unique(jax.random.choice(keys[0], 1000, (100_000,), p=jnp.full(1000, 1e-3, kind))))
print("members that are ever drawn of 1,000 with equal probabilities:", many)
refused = 0
for probabilities in (np.asarray(broken), np.zeros(5), np.array([0.5, 0.5, 0, 0, 0])):
    try:
        np.random.default_rng(0).choice(5, 3, replace=False, p=probabilities)
    except ValueError as error:
        refused += 1
        print("numpy:", error)
wrong = drawn != {2} or named != {2} or dead != {0} or max(few) < 2 or refused != 3
raise SystemExit(wrong or many["bfloat16"] > 200 or many["float32"] != 1000)
EOF
