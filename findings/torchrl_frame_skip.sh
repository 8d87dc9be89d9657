#!/usr/bin/env bash
# torchrl's FrameSkipTransform goes on after the end of an episode, and counts its rewards
#
# Version: torchrl 0.14.1, torch 2.14.1, gymnasium 1.4.0, numpy 2.4.6
# Belief: A frame skip stops at the end of an episode, as gymnasium's and Atari's wrappers do.
# Seen: With a skip of 4 an environment that ends after 5 steps takes 8, and has a return of 8. An end that holds for one step only, as of a body that falls
#   through a limit and comes back, is missed where it lies between two actions.
# Means: A policy that dies early has up to 3 rewards more, by where the end falls in a skip, so short episodes are flattered; other libraries give the same policy
#   another return.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torchrl==0.14.1 torch==2.14.1 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gymnasium
import numpy as np
from torchrl.envs import Compose, FrameSkipTransform, GymWrapper, RewardSum, TransformedEnv


class Steps(gymnasium.Env):
    """Ends after some steps, for one step or for good; each step has a reward of 1."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length, for_good=True):
        self.length, self.for_good = length, for_good

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken += 1
        ended = self.taken >= self.length if self.for_good else self.taken == self.length
        return np.zeros(1, np.float32), 1.0, ended, False, {}


def first_episode(environment, skip):
    made = TransformedEnv(GymWrapper(environment), Compose(FrameSkipTransform(skip), RewardSum()))
    steps = made.rollout(6)
    return environment.taken, float(steps["next", "episode_reward"][-1]), bool(steps["next", "done"][-1])


found = {skip: first_episode(Steps(5), skip) for skip in (1, 4)}
brief = first_episode(Steps(5, for_good=False), 4)
print("an end after 5 steps: steps, return, seen:", found)
print("an end of one step, a skip of 4:", brief)
assert found == {1: (5, 5.0, True), 4: (8, 8.0, True)}
assert brief == (24, 24.0, False)
PROGRAM
