#!/usr/bin/env bash
# Under jumanji's gym wrapper each episode ends terminated and truncated, a death as well as the time limit
#
# Version: jumanji 1.1.2, jax 0.10.2 (CPU), gymnasium 1.4.0, numpy 2.4.6
# Belief: `JumanjiToGymWrapper` gives `terminated` for a death and `truncated` for the time limit, as gymnasium's environments do.
# Seen: `truncated` is that the step is the last one, and `terminated` that the discount is 0, which most environments have at their time limit
#   too. A snake that hits a wall and one that lives until its limit of 5 steps both end with True and True.
# Means: A share of episodes that reached the limit is 100 %, an agent that bootstraps where `truncated` is set does so at each death, and one that
#   looks at `terminated` first never does. Count steps, or look into the state.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jumanji==1.1.2 jax==0.10.2 jaxlib==0.10.2 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import numpy as np
from jumanji.environments import Snake
from jumanji.wrappers import JumanjiToGymWrapper


def ends(limit, careful):
    """Length and flags of the last step of eight episodes, by a snake that avoids walls or one that goes straight up."""
    env, seen = JumanjiToGymWrapper(Snake(num_rows=6, num_cols=6, time_limit=limit)), []
    for seed in range(8):
        observation, _ = env.reset(seed=seed)
        length, ended = 0, False
        while not ended:
            action = int(np.argmax(np.asarray(observation["action_mask"]))) if careful else 0
            observation, _, terminated, truncated, _ = env.step(np.int32(action))
            length, ended = length + 1, terminated or truncated
        seen.append((length, terminated, truncated))
    return seen


walls, limits = ends(4000, False), ends(5, True)
print(f"straight into a wall, limit of 4,000 steps (length, terminated, truncated): {walls}")
print(f"alive until a limit of 5 steps: {limits}")
both = all(terminated and truncated for _, terminated, truncated in walls + limits)
raise SystemExit(not (both and all(length <= 6 for length, _, _ in walls) and all(length == 5 for length, _, _ in limits)))
PROGRAM
