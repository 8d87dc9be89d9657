#!/usr/bin/env bash
# brax begins every later episode at the first one's state
#
# Version: brax 0.14.2, jax 0.10.2
# Belief: Under auto-reset, the default of envs.create, each episode of a long roll-out begins at a new random state.
# Seen: The wrapper keeps the first state and goes back to it: after one, two and three episodes all four environments stand at
#   their first observation, to the bit.
# Means: A fitness over ten episodes of one roll-out is one start ten times, so noise over starts is not averaged and a policy is
#   fitted to few starts. Count starts by environments, and call reset with a new key each generation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet brax==0.14.2 jax==0.10.2 numpy==2.4.6
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
from brax import envs

env = envs.create("inverted_pendulum", episode_length=5, batch_size=4, backend="positional")
state, step = jax.jit(env.reset)(jax.random.key(0)), jax.jit(env.step)
first, same = state.obs, []
for _ in range(3):
    for _ in range(5):
        state = step(state, jnp.zeros((4, 1)))
    same.append(bool((state.obs == first).all()) and bool(state.done.all()))
apart = len({tuple(row) for row in first.tolist()})
print(f"{apart} environments with different starts; at their first observation again after each of three episodes: {same}")
raise SystemExit(not (apart == 4 and all(same)))
EOF
