#!/usr/bin/env bash
# What evosax's policies have not seen changing yet is divided by a millionth, so the first ball in a new place is an input of 1,000,000
#
# Version: evosax 0.3.2, gymnax 1.0.1, flax 0.12.8, jax 0.10.2 (CPU), numpy 2.4.6
# Belief: Observations that are normalised by the running mean and deviation are numbers of a few units, or cut at some.
# Seen: `GymnaxProblem` normalises by default, with 1e-6 as the least deviation and no cut. In Breakout of MinAtar some 330 of 400
#   numbers were constant in the first generation. In the next two up to a twentieth of the observations have an input of 1,000,000,
#   where all were 0 or 1. Steps after the end of the episode that is scored are in the statistics too.
# Means: For some generations the fitness of a member is decided by the cells that nobody had reached. Use `use_normalize_obs=False` for
#   such observations, or replace `std_min` in the state.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 gymnax==1.0.1 flax==0.12.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 seaborn==0.13.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax
import jax.numpy as jnp
from evosax.problems.rl.gymnax import GymnaxProblem
from flax import linen


class Policy(linen.Module):
    """Linear policy of three actions."""

    @linen.compact
    def __call__(self, observation, key):
        return jnp.argmax(linen.Dense(3)(jnp.ravel(observation).astype(jnp.float32)))


problem = GymnaxProblem("Breakout-MinAtar", Policy(), episode_length=50, num_rollouts=2)
state, largest, constant = problem.init(jax.random.key(0)), [], []
for generation in range(4):
    members = jax.vmap(problem.sample)(jax.random.split(jax.random.key(generation), 16))
    _, following, metrics = problem.eval(jax.random.key(100 + generation), members, state)
    seen = metrics["env_states"][0]
    inputs = jnp.abs(problem.normalize_obs(seen, state)).reshape(*seen.shape[:3], -1).max(-1)
    constant.append(int((state.obs_std <= 1.1e-6).sum()))
    largest.append(float(inputs.max()))
    print(f"generation {generation}: observations up to {float(seen.max()):g}, {constant[-1]} of {state.obs_std.size} deviations at "
          f"the least, largest input {largest[-1]:g}, in {float((inputs > 1000).mean()):.1%} of the observations above 1,000")
    state = following
raise SystemExit(not (largest[0] == 1 and constant[1] > 250 and 9e5 < largest[1] < 1.1e6))
PROGRAM
