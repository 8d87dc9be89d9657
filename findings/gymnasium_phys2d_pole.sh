#!/usr/bin/env bash
# gymnasium's jax CartPole has another pole: mass plus length where CartPole-v1 has mass times length
#
# Version: gymnasium 1.4.0, jax 0.10.2, flax 0.12.8
# Belief: phys2d/CartPole-v1 is CartPole-v1 for jax, with float32's last digits: a policy has the same return in both, as it
#   has in Pendulum.
# Seen: Its polemass_length is 0.1 + 0.5 = 0.6, where the equations and CartPole-v1 have 0.1 * 0.5 = 0.05. From one state the
#   first step adds 0.34 to the cart's speed where it adds 0.19, and within 30 steps an observation is 1.4 apart. With 0.05 put
#   in, they agree to 1e-6; Pendulum's returns agree to six digits.
# Means: A policy that was evolved fast in the one is not measured by the other. Compare one trajectory from one state before
#   returns, or give CartPoleParams the product.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'gymnasium[classic-control]==1.4.0' jax==0.10.2 flax==0.12.8 numpy==2.4.6
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.phys2d.cartpole import CartPoleFunctional, CartPoleParams

START, ACTIONS = np.array([0.01, -0.02, 0.03, 0.02]), np.random.default_rng(0).integers(0, 2, 30)


def apart(params):
    """Return the largest differences of an observation after one step and within 30, and what the first step added."""
    env, theirs, state, most = gymnasium.make("CartPole-v1").unwrapped, CartPoleFunctional(), jnp.asarray(START, jnp.float32), []
    env.reset(seed=0)
    env.state = tuple(START)
    for action in ACTIONS:
        ours = np.array(env.step(int(action))[0])
        state = theirs.transition(state, int(action), None, params)
        most.append(float(np.abs(np.asarray(state) - ours).max()))
        if len(most) == 1:
            moved = ours - START, np.asarray(state) - START
    return most[0], max(most), moved


given, right = apart(CartPoleParams), apart(CartPoleParams(polemass_length=0.05))
print("polemass_length:", CartPoleParams.polemass_length, "in phys2d,", gymnasium.make("CartPole-v1").unwrapped.polemass_length)
print("first step adds", *(part.round(4).tolist() for part in given[2]))
print(f"apart after one step {given[0]:.2g}, at most within 30 {given[1]:.2g}; with 0.05: {right[0]:.2g}, {right[1]:.2g}")
raise SystemExit(not (abs(CartPoleParams.polemass_length - 0.6) < 1e-9 and given[0] > 0.01 and given[1] > 0.3 and right[1] < 1e-3))
EOF
