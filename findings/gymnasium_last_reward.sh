#!/usr/bin/env bash
# NormalizeReward gives the last reward of an episode to the next one
#
# Version: gymnasium 1.4.0, numpy 2.4.6
# Belief: The discounted return that rewards are divided by begins at 0 in each episode.
# Seen: The return before the last step is dropped, and the last reward is added to what follows: with a reward of 1 in each
#   of three steps and a discount of 1 the returns are 1, 2, 1, then 2, 3, 1 for ever, where 1, 2, 3 is right, in the plain
#   wrapper and in the vector one with NEXT_STEP, where the step of the reset counts as one more. With SAME_STEP they are 1,
#   2, 0. So a reward that comes at the end alone is the first one of the next episode, and with SAME_STEP it is never in a
#   return.
# Means: Rewards at an end, such as a goal or a fall, are scaled by another number in each mode, up to none, and returns of
#   two modes do not compare. Normalise returns yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeReward
from gymnasium.wrappers.vector import NormalizeReward as VectorNormalizeReward


class Steps(gym.Env):
    observation_space, action_space = gym.spaces.Box(-9, 9, (1,)), gym.spaces.Discrete(2)

    def __init__(self, last_alone):
        self.last_alone = last_alone

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        reward = float(self.time == 3 or not self.last_alone)
        return np.zeros(1, np.float32), reward, self.time == 3, False, {}


seen = {}
for last_alone in (False, True):
    env = NormalizeReward(Steps(last_alone), gamma=1.0)
    env.reset()
    returns = []
    for _ in range(9):
        if env.step(1)[2]:
            returns.append(float(np.squeeze(env.discounted_reward)))
            env.reset()
        else:
            returns.append(float(np.squeeze(env.discounted_reward)))
    seen[last_alone, "plain"] = returns
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        envs = VectorNormalizeReward(SyncVectorEnv([lambda: Steps(last_alone)], autoreset_mode=mode), gamma=1.0)
        envs.reset()
        returns = []
        for _ in range(9 if mode is AutoresetMode.SAME_STEP else 12):
            envs.step(np.array([1]))
            returns.append(float(envs.accumulated_reward[0]))
        seen[last_alone, mode.name] = returns
for key, values in seen.items():
    print("reward at the end alone, wrapper, returns:", *key, values)
raise SystemExit(
    seen[False, "plain"] != [1, 2, 1, 2, 3, 1, 2, 3, 1]
    or seen[False, "SAME_STEP"] != [1, 2, 0] * 3
    or seen[False, "NEXT_STEP"] != [1, 2, 1, 1, 2, 3, 1, 1, 2, 3, 1, 1]
    or seen[True, "plain"] != [0, 0, 1, 1, 1, 1, 1, 1, 1]
    or any(seen[True, "SAME_STEP"])
)
EOF
