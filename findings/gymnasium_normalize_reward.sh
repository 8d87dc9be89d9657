#!/usr/bin/env bash
# Under NormalizeReward one policy has returns that differ tenfold, by what the environment ran before
#
# Version: gymnasium 1.4.0, numpy 2.4.6
# Belief: Rewards are scaled by a slowly moving deviation, so that the same episode has about the same return.
# Seen: The deviation begins at 1 and settles within the first episode: the first reward of a fresh environment is divided by next
#   to nothing of experience. The same episode of Pendulum (start and actions) has -80.8 in a fresh environment, -7.6 after one
#   episode and -10.3 after ten.
# Means: A member's fitness is decided by its place in the queue of its worker, so ranks are those of the order and not of the
#   policies. Wrap evaluations without it, or keep its statistics still and the same for all members.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import gymnasium
import numpy as np
from gymnasium.wrappers import NormalizeReward


def episode(environment, seed):
    environment.reset(seed=seed)
    return sum(environment.step(np.array([0.5]))[1] for _ in range(200))


returns = {}
for before in (0, 1, 10):
    environment = NormalizeReward(gymnasium.make("Pendulum-v1"))
    for number in range(before):
        episode(environment, 100 + number)
    returns[before] = float(episode(environment, 7))
    print(f"after {before} episodes the episode of seed 7 has the return {returns[before]:.1f}")
raise SystemExit(not returns[0] < 5 * returns[10] < 0)
EOF
