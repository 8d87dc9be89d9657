#!/usr/bin/env bash
# In flax initial weights and the first noise are the same numbers where their streams have one key
#
# Version: flax 0.12.8, jax 0.10.2
# Belief: Streams have names, so `rngs={"params": key, "noise": key}` and `nnx.Rngs(params=0, noise=0)` are independent.
# Seen: The name is not part of the key: in linen a weight is the first draw of the module's other stream, number by number; in nnx too.
#   `nnx.Rngs(0)`, where all names share one stream, is independent.
# Means: Noise on weights or activations that repeats the initial weights is no noise: its direction is the weights themselves, and the
#   first generation only scales them. Split the key, one for each stream.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flax==0.12.8 jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx


class Noisy(nn.Module):
    @nn.compact
    def __call__(self):
        weight = self.param("weight", lambda key: jax.random.normal(key, (4,)))
        return weight, jax.random.normal(self.make_rng("noise"), (4,))


key, other = jax.random.split(jax.random.key(0))
same = [bool((jnp.subtract(*Noisy().init_with_output({"params": key, "noise": noise})[0]) == 0).all()) for noise in (key, other)]
draw = lambda streams: bool(jax.random.normal(streams.params()) == jax.random.normal(streams.noise()))
nnx_same = draw(nnx.Rngs(params=0, noise=0)), draw(nnx.Rngs(0))
print("linen: weight and noise the same with one key, with two:", same)
print("nnx: the same with Rngs(params=0, noise=0), with Rngs(0):", nnx_same)
raise SystemExit(same != [True, False] or nnx_same != (True, False))
EOF
