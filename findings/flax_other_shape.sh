#!/usr/bin/env bash
# flax loads weights of another shape and type into a network; orbax casts them
#
# Version: flax 0.12.8, orbax-checkpoint 0.12.8, jax 0.10.2, jaxlib 0.10.2, numpy 2.4.6
# Belief: Restoring into a template checks it: weights of another width are an error.
# Seen: flax.serialization.from_bytes compares names only: a template of 2 x 2 in float64 comes back as 3 x 4 in float32,
#   without a word. A step size of one number for one of each weight then is broadcast, and the search runs on. Layers of
#   linen look again when they are applied. orbax refuses another shape and casts another type in silence: a step of 1e-3 on a
#   weight of 1 is lost in a bfloat16 template.
# Means: The state of a search or an optimizer of another size goes on as if it were this one, and a resume in bfloat16
#   forgets small updates. Compare shapes and types with jax.tree.map after each load.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flax==0.12.8 orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax import serialization

loaded = serialization.from_bytes({"w": np.zeros((2, 2))}, serialization.to_bytes({"w": np.ones((3, 4), np.float32)}))
print(f"template (2, 2) float64, file (3, 4) float32: {loaded['w'].shape} {loaded['w'].dtype}")

state = {"mean": jnp.zeros(4), "sigma": jnp.array([0.1, 0.2, 0.3, 0.4])}
other = {"mean": jnp.ones(4), "sigma": jnp.array([0.5])}
state = serialization.from_bytes(state, serialization.to_bytes(other))
population = state["mean"] + state["sigma"] * jax.random.normal(jax.random.key(0), (8, 4))
print(f"a state with four sigmas, a file with one: sigma {state['sigma']}, a population of {population.shape}")

saver = ocp.StandardCheckpointer()
saver.save(f"{sys.argv[1]}/centre", {"w": jnp.full((3, 4), 1.001)})
saver.wait_until_finished()
narrow = saver.restore(f"{sys.argv[1]}/centre", {"w": jnp.zeros((3, 4), jnp.bfloat16)})["w"]
try:
    saver.restore(f"{sys.argv[1]}/centre", {"w": jnp.zeros((2, 2))})
    refused = False
except ValueError:
    refused = True
print(f"orbax, 1.001 into bfloat16: {narrow.dtype} {float(narrow[0, 0])}; another shape is refused: {refused}")
taken = loaded["w"].shape == (3, 4) and state["sigma"].shape == (1,) and population.shape == (8, 4)
raise SystemExit(not (taken and float(narrow[0, 0]) == 1 and refused))
EOF
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
