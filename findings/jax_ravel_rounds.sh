#!/usr/bin/env bash
# Noise on a vector of ravel_pytree does not reach bfloat16 weights, and changes random keys
#
# Version: jax 0.10.2
# Belief: `ravel_pytree` gives one vector and the way back; noise on the vector is noise on the weights.
# Seen: One float32 leaf makes the vector float32; on the way back each leaf is rounded to its own type. Relative noise of 1e-3 changes 1.2 % of the
#   bfloat16 weights, and of 3e-4 none. Raw random keys (uint32) become others without any noise, and a counter of 2**24 + 1 becomes 2**24.
# Means: Members differ in their float32 leaves alone, and the search looks as if the rest had no effect; a state with a key in it draws
#   other numbers than before. Search over float32 copies, and leave keys and counters out of the tree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

halves = jax.random.normal(jax.random.key(0), (10000,)).astype(jnp.bfloat16)
vector, back = ravel_pytree({"scale": jnp.ones(3), "weight": halves})
noise, shares = jax.random.normal(jax.random.key(1), vector.shape), {}
for size in (1e-2, 1e-3, 3e-4):
    shares[size] = float((back(vector * (1 + size * noise))["weight"] != halves).mean())
print(f"vector {vector.dtype}; share of bfloat16 weights that relative noise changes: {shares}")
state = {"weight": jnp.ones(3), "key": jax.random.PRNGKey(7), "children": jax.random.split(jax.random.PRNGKey(7)), "step": jnp.int32(2**24 + 1)}
vector, back = ravel_pytree(state)
again = back(vector)
same = bool((again["children"] == state["children"]).all())
draws = [float(jax.random.normal(tree["children"][0])) for tree in (state, again)]
print(f"keys the same after the way there and back: {same}, a draw {draws[0]:.4f} and {draws[1]:.4f}; counter {int(again['step'])} of {2**24 + 1}")
raise SystemExit(not (0.5 < shares[1e-2] and 0.005 < shares[1e-3] < 0.02 and shares[3e-4] == 0 and not same and draws[0] != draws[1] and int(again["step"]) == 2**24))
EOF
