#!/usr/bin/env bash
# A deep copy of a MuJoCo environment stands at its origin
#
# Version: gymnasium 1.4.0, mujoco 4.0.0
# Belief: copy.deepcopy of an environment in an episode is that environment: state, time and generator, as it is for CartPole.
# Seen: The copy is made anew from the constructor's arguments, without an error: positions are zero, the next reward is
#   another one, and its reset() draws other numbers.
# Means: Branching a rollout, or handing each member a copy of one prepared environment, compares members on other states than
#   thought. Set qpos, qvel and the generator by hand, or replay the actions.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 mujoco==4.0.0 imageio==2.38.1 packaging==26.4 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import copy

import gymnasium
import numpy as np


def equal(name):
    env = gymnasium.make(name)
    env.reset(seed=1)
    env.action_space.seed(1)
    action = env.action_space.sample()
    for _ in range(5):
        env.step(action)
    other = copy.deepcopy(env)
    mujoco = hasattr(env.unwrapped, "data")
    ahead = [np.array(x.unwrapped.data.qpos if mujoco else x.unwrapped.state) for x in (env, other)]
    resets = [x.reset()[0] for x in (env, other)]
    return np.array_equal(*ahead), np.array_equal(*resets)


found = {name: equal(name) for name in ("CartPole-v1", "HalfCheetah-v5")}
for name, (state, generator) in found.items():
    print(f"{name}: copy has the state: {state}, and the generator: {generator}")
raise SystemExit(found != {"CartPole-v1": (True, True), "HalfCheetah-v5": (False, False)})
EOF
