#!/usr/bin/env bash
# The time limit of level-based foraging and of the robot warehouse is a termination, and never a truncation
#
# Version: lbforaging 2.0.0, rware 2.0.0, gymnasium 1.4.0, numpy 2.4.6
# Belief: In gymnasium's five values an episode that is cut by the clock is truncated, so that a critic goes on from its last state.
# Seen: Both environments say `terminated=True, truncated=False` at their limit of 50 and 500 steps, as for an episode whose food is eaten. Their
#   specification has no `max_episode_steps`, so that gymnasium adds no limit of its own.
# Means: A critic learns that the last step's state is worth 0, and "solved" by `terminated` is 100 % for agents that stand still. Read the limit
#   from the environment, and call an end there truncated; a return without discount is the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lbforaging==2.0.0 rware==2.0.0 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gymnasium
import lbforaging
import numpy as np
import rware

holds = True
for name, limit in (("Foraging-8x8-2p-2f-v3", 50), ("rware-tiny-2ag-v2", 500)):
    environment = gymnasium.make(name)
    environment.reset(seed=1)
    steps, terminated, truncated, total = 0, False, False, 0.0
    while not (np.any(terminated) or np.any(truncated)):
        _, reward, terminated, truncated, _ = environment.step((0, 0))
        steps, total = steps + 1, total + float(np.sum(reward))
    print(f"{name}: agents that stand still end after {steps} steps with {total}, terminated {bool(np.any(terminated))}, "
          f"truncated {bool(np.any(truncated))}; max_episode_steps {environment.spec.max_episode_steps}")
    holds &= steps == limit and bool(np.any(terminated)) and not np.any(truncated) and environment.spec.max_episode_steps is None and total == 0
raise SystemExit(not holds)
PROGRAM
