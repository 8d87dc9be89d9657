#!/usr/bin/env bash
# A reset of one environment makes the running returns and lengths of all others 0 in gymnasium's vector RecordEpisodeStatistics
#
# Version: gymnasium 1.4.0, numpy 2.4.6
# Belief: With `reset(options={"reset_mask": ...})`, the way of `AutoresetMode.DISABLED`, only the masked environments begin again.
# Seen: Of two environments with episodes of 3 and 5 steps and a reward of 1 a step the second one's returns are 2, 1, 3, 2 where
#   each is 5, and the first one's are 3, 1, 3, 2. Lengths are as wrong. Under `NEXT_STEP` and `SAME_STEP` all are 3 and 5. The episodes
#   themselves are right in all modes.
# Means: Returns of an evaluation that resets by hand count the steps since whichever environment was reset last: a longer life looks
#   shorter, the more so with more environments. Add up rewards yourself, or let the environment reset.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics


class Counter(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.step_count += 1
        return np.full(1, self.step_count, np.float32), 1.0, self.step_count >= self.length, False, {}


def returns(mode):
    plain = SyncVectorEnv([lambda: Counter(3), lambda: Counter(5)], autoreset_mode=mode)
    environments = RecordEpisodeStatistics(plain)
    environments.reset(seed=0)
    ended, seen = np.zeros(2, bool), [[], []]
    for _ in range(20):
        if mode == AutoresetMode.DISABLED and ended.any():
            environments.reset(options={"reset_mask": ended})
        _, _, ended, _, infos = environments.step(np.zeros(2, int))
        for place in np.flatnonzero(ended):
            episode = infos["episode"] if "episode" in infos else infos["final_info"]["episode"]
            seen[place].append((float(episode["r"][place]), int(episode["l"][place])))
    return seen


seen = {mode.name: returns(mode) for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)}
for mode, pair in seen.items():
    print(mode, "returns and lengths:", *pair)
right = all(set(pair[0]) == {(3.0, 3)} and set(pair[1]) == {(5.0, 5)} for mode, pair in seen.items() if mode != "DISABLED")
wrong = seen["DISABLED"]
raise SystemExit(not right or (5.0, 5) in wrong[1] or {value for value, _ in wrong[0]} == {3.0})
EOF
