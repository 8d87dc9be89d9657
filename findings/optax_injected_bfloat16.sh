#!/usr/bin/env bash
# `inject_hyperparams` rounds Adam's constants to the type of the weights: in bfloat16 b2 is 1, and the first step NaN
#
# Version: optax 0.2.8, jax 0.10.2, numpy 2.4.6
# Belief: `optax.inject_hyperparams(optax.adam)(learning_rate=0.01)` is `optax.adam(0.01)` with a rate that can be read and set.
# Seen: For float32 weights it is. For bfloat16 ones b2 is 1 instead of 0.999, b1 0.8984 instead of 0.9 and the rate 0.01001, and
#   all weights are NaN after one step, where plain Adam's are right. For float16 ones epsilon is 0, so that a weight without a
#   gradient is NaN, in plain Adam too. `hyperparam_dtype=jnp.float32` is right for all.
# Means: A schedule that is put around Adam, as tuners and logs of the rate need it, makes a network in half precision diverge, or gives
#   it another momentum without a word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optax==0.2.8 jax==0.10.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax.numpy as jnp
import numpy as np
import optax


def weights(optimizer, kind):
    here = {"w": jnp.zeros(3, kind)}
    state = optimizer.init(here)
    for _ in range(3):
        steps, state = optimizer.update({"w": jnp.array([1.0, -2.0, 0.0], kind)}, state, here)
        here = optax.apply_updates(here, steps)
    constants = {name: float(state.hyperparams[name]) for name in ("b1", "b2", "eps")} if hasattr(state, "hyperparams") else {}
    return np.asarray(here["w"], np.float32), constants


seen = {}
for kind in (jnp.float32, jnp.bfloat16, jnp.float16):
    plain, _ = weights(optax.adam(0.01), kind)
    injected, constants = weights(optax.inject_hyperparams(optax.adam)(learning_rate=0.01), kind)
    wide, _ = weights(optax.inject_hyperparams(optax.adam, hyperparam_dtype=jnp.float32)(learning_rate=0.01), kind)
    print(kind.__name__, "plain", plain, "injected", injected, "injected as float32", wide, constants)
    seen[kind.__name__] = np.isnan(plain).any(), int(np.isnan(injected).sum()), np.isnan(wide).any(), constants
half = seen["bfloat16"]
plain_right = not any(row[2] for row in seen.values()) and not half[0] and seen["float16"][0]
raise SystemExit(not plain_right or seen["float32"][1] or half[1] != 3 or half[3]["b2"] != 1 or seen["float16"][3]["eps"] != 0)
EOF
