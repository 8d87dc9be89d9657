#!/usr/bin/env bash
# A flax network with dropout, called on its split state, draws the same noise in each call under jit, and other noise without
#
# Version: flax 0.12.8, jax 0.10.2, numpy 2.4.6
# Belief: jit does not change what is computed: `nnx.merge(graph, state)(x)` draws the same in both, or moves on in both.
# Seen: Without jit two calls on one state differ, as the call counts in the state that was given. Under `jax.jit` two calls are the same
#   to the bit, as the counts of the traced copy are lost. Under `vmap` over stacked states all members have the same noise. Two layers
#   that each got `Rngs(0)` have the same noise too, and so has a clone.
# Means: A noisy fitness is a fixed one as soon as it is compiled, and members share their noise. Return the state from the call, or give
#   `rngs` to it; give members other keys by `nnx.split_rngs`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flax==0.12.8 jax==0.10.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

model = nnx.Sequential(nnx.Linear(8, 8, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(1)))
graph, state = nnx.split(model)
inputs = jnp.ones(8)


def call(state):
    return nnx.merge(graph, state)(inputs)


compiled = jax.jit(call)
jitted = np.array_equal(compiled(state), compiled(state))
stacked = jax.tree.map(lambda value: jnp.stack([value] * 3), state)
members = jax.vmap(call)(stacked)
alike = np.array_equal(members[0], members[1])
plain = np.array_equal(call(state), call(state))
layers = [nnx.Dropout(0.5, rngs=nnx.Rngs(0)) for _ in range(2)]
layers_alike = np.array_equal(layers[0](inputs), layers[1](inputs))
print("two calls are the same: under jit", jitted, "without", plain)
print("members under vmap alike:", alike, "two layers of Rngs(0):", layers_alike)
raise SystemExit((jitted, plain, alike, layers_alike) != (True, False, True, True))
EOF
