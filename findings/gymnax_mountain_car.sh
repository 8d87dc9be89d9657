#!/usr/bin/env bash
# gymnax's continuous mountain car keeps its speed at the wall, where gymnasium's stops
#
# Version: gymnax 1.0.1, jax 0.10.2, gymnasium 1.3.0
# Belief: Environments of one name have one dynamics: a policy that is trained fast in gymnax has its return in gymnasium.
# Seen: At the left wall gymnasium sets the speed to 0. In gymnax's MountainCarContinuous-v0 the car stays at -1.2 and keeps
#   its negative speed, which engine and slope must first use up. From one state and by the same full-power actions
#   gymnasium's car is at the goal after 106 steps, gymnax's not. MountainCar-v0 agrees to 1e-6.
# Means: Returns of the two are not comparable, and a policy that swings back from the wall is worse in gymnax. Check one
#   trajectory against the environment that a paper names.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnax==1.0.1 jax==0.10.2 'gymnasium[classic-control]==1.3.0' numpy==2.4.6 six==1.17.0
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np


def rolled(name, action):
    """Return after how many steps the two cars part by more than 0.01, where, and whether gymnasium's is at the goal."""
    theirs, options = gymnax.make(name)
    state = theirs.reset(jax.random.key(0), options)[1]
    ours = gymnasium.make(name)
    ours.reset(seed=0)
    ours.unwrapped.state = np.array([state.position, state.velocity], np.float64)
    step, parted = jax.jit(theirs.step_env), None
    for count in range(1, 201):
        given = action(ours.unwrapped.state[1])
        seen, state, *_ = step(jax.random.key(count), state, jnp.asarray(given), options)
        wanted, _, over, _, _ = ours.step(given)
        if parted is None and np.abs(np.ravel(seen) - wanted).max() > 0.01:
            parted = count, [round(float(each), 3) for each in wanted], [round(float(each), 3) for each in np.ravel(seen)]
        if over:
            return parted, count, float(np.abs(np.ravel(seen) - wanted).max())
    return parted, None, None


whole = rolled("MountainCar-v0", lambda speed: 2 if speed >= 0 else 0)
real = rolled("MountainCarContinuous-v0", lambda speed: np.array([1.0 if speed >= 0 else -1.0], np.float32))
for name, (parted, goal, apart) in (("MountainCar-v0", whole), ("MountainCarContinuous-v0", real)):
    where = f"part after {parted[0]} steps: gymnasium {parted[1]}, gymnax {parted[2]}" if parted else "never part"
    print(f"{name}: {where}; gymnasium is at the goal after {goal} steps, {apart:.2g} apart")
at_wall = real[0] is not None and real[0][1][0] == real[0][2][0] == -1.2 and real[0][1][1] == 0 > real[0][2][1]
raise SystemExit(not (whole[0] is None and at_wall and real[2] > 0.1))
EOF
