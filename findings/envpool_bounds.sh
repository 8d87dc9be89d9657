#!/usr/bin/env bash
# No observation of EnvPool's Box2D environments lies in their observation space
#
# Version: envpool 1.2.5, numpy 2.4.6, gymnasium 1.4.0
# Belief: The numbers that an environment gives lie in its observation space, so a wrapper may clip to it or scale by it.
# Seen: The bounds of LunarLander-v3 and BipedalWalker-v3 reach from 1.2e-38, the smallest positive number of float32, upward. Of
#   1,000 first observations none is inside, since coordinates, speeds and angles have both signs.
# Means: Clipped to the space, half of what a policy sees becomes 0, and a network trained on it is blind on one side. Take the
#   bounds from gymnasium's environment, or none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet envpool==1.2.5 numpy==2.4.6 gymnasium==1.4.0
"$folder/venv/bin/python" -W ignore - <<'PY'
import envpool
import numpy as np

holds = True
for name in ("LunarLander-v3", "BipedalWalker-v3"):
    pool = envpool.make(name, env_type="gymnasium", num_envs=1000, seed=0, num_threads=1)
    space, (observations, _) = pool.observation_space, pool.reset()
    inside = sum(space.contains(each) for each in observations)
    lost = np.mean((np.clip(observations, space.low, space.high) != observations).any(axis=1))
    print(f"{name}: bounds from {space.low.min():.3g} to {space.high.max():.3g}; {inside} of 1000 observations inside; clipping changes {lost:.0%}")
    holds &= inside == 0
raise SystemExit(not holds)
PY
