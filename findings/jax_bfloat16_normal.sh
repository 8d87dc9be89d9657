#!/usr/bin/env bash
# jax.random.normal in bfloat16 has 128 values, none above 2.6, and a mean below zero
#
# Version: jax 0.10.2, jaxlib 0.10.2, ml_dtypes 0.6.0, numpy 2.4.6
# Belief: Noise in bfloat16 is the float32 noise with fewer digits: mean 0, deviation 1, and a greatest of a million near 4.9.
# Seen: A draw is one of 128 steps of a uniform number, sent through the inverse of the distribution. A million draws have 128
#   values between -2.89 and 2.52 and a mean of -0.012, twelve standard errors from 0, with any key. float16 has 1,024 values,
#   and a mean of -0.002. Float32 numbers cast to bfloat16 have none of this.
# Means: All members lean one way: the mean of a population's noise is -0.012 sigma in every coordinate, which no larger
#   population removes, and independent (not mirrored) members move the centre along it. Tails that novelty lives on are cut.
#   Draw in float32 and cast.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

figures = {}
for seed in (0, 1, 2):
    key = jax.random.key(seed)
    wide = jax.random.normal(key, (10**6,))
    draws = {
        "bfloat16": jax.random.normal(key, (10**6,), jnp.bfloat16),
        "float16": jax.random.normal(key, (10**6,), jnp.float16),
        "float32, cast": wide.astype(jnp.bfloat16),
    }
    for name, noise in draws.items():
        noise = np.asarray(noise.astype(jnp.float32))
        figures[name, seed] = len(np.unique(noise)), noise.mean(), noise.max(), noise.min()
        values, mean, top, low = figures[name, seed]
        print(f"key {seed}, {name:13s}: {values:5d} values, mean {mean:+.4f}, from {low:.2f} to {top:.2f}")
narrow = [figures["bfloat16", seed] for seed in range(3)]
cast = [figures["float32, cast", seed] for seed in range(3)]
leans = all(values == 128 and mean < -0.008 and top < 3 and low > -3 for values, mean, top, low in narrow)
raise SystemExit(not (leans and all(abs(mean) < 0.004 and top > 4 for _, mean, top, _ in cast)))
EOF
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
