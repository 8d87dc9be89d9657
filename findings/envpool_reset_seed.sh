#!/usr/bin/env bash
# EnvPool's reset(seed) starts another episode each time
#
# Version: envpool 1.2.5, numpy 2.4.6, gymnasium 1.4.0
# Belief: reset(seed=s) starts the episode of seed s, as in gymnasium, so every member of a generation can meet the same starts.
# Seen: A pool is seeded when it is created. reset(seed=s) warns and continues the stream: no two of five resets are equal, whichever
#   seed they ask for, and only a new pool repeats the first. Rewards are float32, so that `sum` of a thousand rounds each step.
# Means: Members that are evaluated one after another in one pool are compared on different starts (no common random numbers), and a
#   resumed run does not repeat. Create a pool for each generation, which costs milliseconds, and sum rewards in float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet envpool==1.2.5 numpy==2.4.6 gymnasium==1.4.0
"$folder/venv/bin/python" -W ignore - <<'PY'
import envpool
import gymnasium
import numpy as np


def pool():
    return envpool.make("Pendulum-v1", env_type="gymnasium", num_envs=1, seed=3)


def state(observation):
    return tuple(np.ravel(observation).tolist())


one = pool()
starts = [state(one.reset(seed=3)[0]) for _ in range(5)]
reward = one.step(np.zeros((1, 1), np.float32))[1]
repeated = state(pool().reset()[0])
other = gymnasium.make("Pendulum-v1")
same = {state(other.reset(seed=3)[0]) for _ in range(5)}
print(f"five resets with seed 3: {len(set(starts))} different starts in EnvPool, {len(same)} in gymnasium; reward {reward.dtype}")
print(f"a new pool of the same seed begins as the first one did: {repeated == starts[0]}")
raise SystemExit(not (len(set(starts)) == 5 and len(same) == 1 and repeated == starts[0] and reward.dtype == np.float32))
PY
