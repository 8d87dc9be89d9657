#!/usr/bin/env bash
# A StickyAction that never sticks changes the episode of a seed
#
# Version: gymnasium 1.4.0, numpy 2.4.6
# Belief: With `repeat_action_probability=0` the wrapper does nothing.
# Seen: It draws one number a step from the environment's own generator. In FrozenLake and in a stochastic Taxi the same seed
#   and actions are another episode than without the wrapper; in CartPole, which draws at a reset alone, the first episode is
#   the same and the second one is not.
# Means: A control run "without sticky actions" that keeps the wrapper plays other episodes than the plain environment, so
#   pairs by seed are none. Leave the wrapper out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium as gym
import numpy as np
from gymnasium.wrappers import StickyAction


def episodes(env, seed):
    played = []
    env.reset(seed=seed)
    for _ in range(2):
        observations, ended = [], False
        while not ended and len(observations) < 30:
            observation, _, terminated, truncated, _ = env.step(1)
            observations.append(np.asarray(observation).tolist())
            ended = terminated or truncated
        played.append(observations)
        env.reset()
    return played


same = {}
for name, options in (("FrozenLake-v1", {}), ("Taxi-v4", {"is_rainy": True}), ("CartPole-v1", {})):
    make = lambda: gym.make(name, **options)
    pairs = [[episodes(env, seed) for env in (make(), StickyAction(make(), 0.0))] for seed in range(10)]
    same[name] = [sum(plain[episode] == sticky[episode] for plain, sticky in pairs) for episode in (0, 1)]
    print(name, "of ten seeds the first and the second episode are the same:", *same[name])
raise SystemExit(same["FrozenLake-v1"][0] == 10 or same["Taxi-v4"][0] == 10 or same["CartPole-v1"] != [10, 0])
EOF
