#!/usr/bin/env bash
# Stable-Baselines3's returns are rounded to six decimals with a Monitor, and to float32 without
#
# Version: stable_baselines3 2.9.2, gymnasium 1.4.0, torch 2.14.1
# Belief: evaluate_policy returns the sum of the rewards in double precision; a Monitor only records.
# Seen: With a Monitor, which make_vec_env adds and the documentation asks for, an episode's return is round(sum, 6): ten
#   rewards of 1e-8 are 0, and of 3.14e-7 are 3e-06. Without one rewards pass through float32: ten of 1e8 + 1 are 1e9.
# Means: Members of an environment with small rewards (distances squared, losses, probabilities) tie at 0 or in steps, and a
#   search by ranks stands still; with an offset they tie without the Monitor. Scale rewards, or add them up in the
#   environment.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet stable_baselines3==2.9.2 gymnasium==1.4.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import gymnasium
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv


class Steps(gymnasium.Env):
    """Ten steps of one reward."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def __init__(self, reward):
        self.reward = reward

    def reset(self, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), self.reward, self.steps >= 10, False, {}


class Policy:
    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return np.zeros(len(observation), int), None


seen = {}
for reward in (1e-8, 2e-8, 3.14e-7, 1e8 + 1):
    for name, wrap in (("Monitor", Monitor), ("none", lambda env: env)):
        mean, _ = evaluate_policy(Policy(), DummyVecEnv([lambda: wrap(Steps(reward))]), n_eval_episodes=2, warn=False)
        seen[reward, name] = float(mean)
    print(f"ten rewards of {reward}: {seen[reward, 'Monitor']} with a Monitor, {seen[reward, 'none']} without")
tie = seen[1e-8, "Monitor"] == seen[2e-8, "Monitor"] == 0 and seen[3.14e-7, "Monitor"] == 3e-6
raise SystemExit(not (tie and seen[1e8 + 1, "none"] == 1e9 and seen[1e8 + 1, "Monitor"] == 1e9 + 10))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
