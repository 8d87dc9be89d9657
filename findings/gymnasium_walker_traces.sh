#!/usr/bin/env bash
# BipedalWalker's episode depends on what its environment played before
#
# Version: gymnasium 1.4.0, box2d 2.3.10, pygame 2.6.1, numpy 2.4.6
# Belief: reset(seed=s) starts the episode of seed s, whatever was played before.
# Seen: The first observation is the same, the next one is not: after another episode the same seed and actions have another
#   return. reset() keeps the Box2D world and what its solver remembers of contacts. LunarLander-v3 makes a new world at each reset, and repeats.
# Means: A member's return depends on who played before it in that environment, so on the number of workers and on the order of
#   members. Make a new environment for every episode.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 box2d==2.3.10 pygame==2.6.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PY'
import gymnasium
import numpy as np


def episode(environment, seed):
    actions = np.random.default_rng(0)
    seen, total, over = [environment.reset(seed=seed)[0]], 0.0, False
    while not over and len(seen) < 200:
        space = environment.action_space
        action = int(actions.integers(space.n)) if hasattr(space, "n") else actions.uniform(-1, 1, space.shape).astype(np.float32)
        observation, reward, terminated, truncated, _ = environment.step(action)
        seen.append(observation)
        total, over = total + float(reward), terminated or truncated
    return seen, total


same = {}
for name in ("BipedalWalker-v3", "LunarLander-v3"):
    environment = gymnasium.make(name)
    before, first = episode(environment, 1)
    episode(environment, 2)
    after, again = episode(environment, 1)
    starts, same[name] = np.array_equal(before[0], after[0]), first == again
    step = next((k for k, (a, b) in enumerate(zip(before, after)) if not np.array_equal(a, b)), None)
    print(f"{name}: return {first:.3f}, after another episode {again:.3f}; equal starts: {starts}; first difference at step {step}")
raise SystemExit(not (not same["BipedalWalker-v3"] and same["LunarLander-v3"]))
PY
