#!/usr/bin/env bash
# Vectorised Atari gives clipped rewards and no sticky actions
#
# Version: ale-py 0.12.1, gymnasium 1.4.0
# Belief: make_vec(id) is make(id) many times: same rewards, same dynamics.
# Seen: make_vec gives rewards clipped to -1 and 1, up to 30 no-ops at the start and no repeated actions; make gives the
#   game's points and repeats an action with probability 0.25.
# Means: A return of MsPacman from the vector environment is a count of pellets, ten times below the score; tables of the two
#   cannot be compared, and members scored by one are selected for another game.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ale-py==0.12.1 gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import inspect

import ale_py
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv

gymnasium.register_envs(ale_py)
one, many = gymnasium.make("ALE/MsPacman-v5"), gymnasium.make_vec("ALE/MsPacman-v5", num_envs=1)
one.reset(seed=0)
many.reset(seed=0)
one.action_space.seed(0)
rewards = set(), set()
for _ in range(400):
    action = one.action_space.sample()
    _, reward, terminated, truncated, _ = one.step(action)
    rewards[0].add(float(reward))
    rewards[1].add(float(many.step(np.array([action]))[1][0]))
    if terminated or truncated:
        one.reset()
sticky = one.spec.kwargs["repeat_action_probability"]
vector = inspect.signature(AtariVectorEnv.__init__).parameters["repeat_action_probability"].default
print(f"rewards of make: {sorted(rewards[0])}, of make_vec: {sorted(rewards[1])}; repeated actions {sticky} and {vector}")
raise SystemExit(not (max(rewards[0]) >= 10 and max(rewards[1]) == 1 and sticky == 0.25 and vector == 0))
EOF
