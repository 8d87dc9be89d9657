#!/usr/bin/env bash
# JaxMARL's particle environments have the rewards of mpe2's, and one step more in each episode
#
# Version: jaxmarl 0.2.0, mpe2 1.1.1, pettingzoo 1.27.0, jax 0.10.2 (CPU), numpy 2.4.6
# Belief: Environments of one name and version that JaxMARL has over from PettingZoo have the same returns, or visibly others.
# Seen: From one state and with the same actions all rewards of `simple_spread_v3` agree to 1e-5 over 25 steps, collisions
#   included. mpe2's episode ends with the 25 steps of `max_cycles`, JaxMARL's after 26, for a `max_steps` of 25, so its return is 4 % larger.
# Means: A policy with -1 a step has -25 in one library and -26 in the other, though nothing else differs. Compare returns per step, or
#   set `max_steps` to 24.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mpe2==1.1.1 pettingzoo==1.27.0 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 numpy==2.4.6 brax==0.14.2 \
    chex==0.1.92 jaxtyping==0.3.11 matplotlib==3.11.2 networkx==3.6.1 pygame-ce==2.5.8
"$folder/venv/bin/pip" install --quiet --no-deps jaxmarl==0.2.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import jax
import jax.numpy as jnp
import jaxmarl
import numpy as np
from mpe2 import simple_spread_v3

theirs = simple_spread_v3.parallel_env(N=3, max_cycles=25, continuous_actions=False)
theirs.reset(seed=0)
world, draws = theirs.unwrapped.world, np.random.default_rng(0)
for agent in world.agents:  # near each other, so that they collide
    agent.state.p_pos = draws.uniform(-0.15, 0.15, 2)
places = np.array([one.state.p_pos for one in (*world.agents, *world.landmarks)])
ours = jaxmarl.make("MPE_simple_spread_v3")
_, state = ours.reset(jax.random.key(0))
state = state.replace(p_pos=jnp.asarray(places, jnp.float32), p_vel=jnp.zeros_like(state.p_vel))
step = jax.jit(ours.step_env)
length, total, furthest, ended = [0, 0], [0.0, 0.0], 0.0, False
while not ended:
    actions = draws.integers(5, size=3)
    _, state, rewards, flags, _ = step(jax.random.key(0), state, dict(zip(ours.agents, actions)))
    mine, ended = np.array([float(rewards[agent]) for agent in ours.agents]), bool(flags["__all__"])
    length[1] += 1
    total[1] += mine.mean()
    if theirs.agents:
        _, other, *_ = theirs.step({agent: int(action) for agent, action in zip(theirs.agents, actions)})
        other = np.array([other[agent] for agent in ours.agents])
        furthest = max(furthest, abs(mine - other).max())
        length[0] += 1
        total[0] += other.mean()
for name, steps, value in zip(("mpe2", "JaxMARL"), length, total):
    print(f"{name}: {steps} steps, return {value:.3f}")
print(f"rewards of the common steps differ by {furthest:.1e} at most, max_steps is {ours.max_steps}")
raise SystemExit(not (length == [25, 26] and furthest < 1e-4 and ours.max_steps == 25))
PROGRAM
