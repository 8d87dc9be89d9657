#!/usr/bin/env bash
# optax's noise on gradients has a key of its own: the same for all members under `vmap`, and the same in every run
#
# Version: optax 0.2.8, jax 0.10.2, numpy 2.4.6
# Belief: `noisy_sgd` and `add_noise` draw other numbers for each network that is trained.
# Seen: Four members whose states come from `vmap(optimizer.init)` have the same noise in each step, and so do two optimizers that were made
#   by `optax.noisy_sgd(0.1)`, as the key is in the optimizer and 0 by default. Layers of one network have noise of their own.
# Means: A population that explores by this noise is one member, and five runs with seeds of their own have one noise. Give a key to each
#   run, and put other keys into the members' states.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optax==0.2.8 jax==0.10.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np
import optax

members = {"a": jnp.zeros((4, 3)), "b": jnp.zeros((4, 3))}
optimizer = optax.add_noise(eta=1.0, gamma=0.0, key=0)
state = jax.vmap(optimizer.init)(members)
alike = []
for _ in range(3):
    noise, state = jax.vmap(optimizer.update)(members, state)
    alike.append(all(np.array_equal(noise["a"][0], row) for row in noise["a"]))
print("under vmap all four members have the same noise:", alike, "layers of one member differ:", not np.array_equal(noise["a"], noise["b"]))
weights = {"w": jnp.zeros(3)}
steps = []
for _ in range(2):
    noisy = optax.noisy_sgd(0.1)
    steps.append(np.asarray(noisy.update(weights, noisy.init(weights))[0]["w"]))
print("two runs of noisy_sgd:", *steps)
raise SystemExit(alike != [True] * 3 or np.array_equal(noise["a"], noise["b"]) or not np.array_equal(*steps))
EOF
