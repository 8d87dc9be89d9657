#!/usr/bin/env bash
# The discounted return of mo-gymnasium's vector statistics is a sum over all episodes so far
#
# Version: mo-gymnasium 1.3.2, gymnasium 1.4.0, numpy 2.4.6
# Belief: `info["episode"]["dr"]` is the discounted return of the episode that ended, as `["r"]` is its return.
# Seen: In deep-sea-treasure with episodes of one step, of reward (0.7, -1), the vector `MORecordEpisodeStatistics` gives `r` of
#   (0.7, -1) for each, and `dr` of (0.7, -1), (1.4, -2), (2.1, -3), (2.8, -4). The wrapper of one environment gives (0.7, -1) each time.
# Means: Hypervolumes and fronts of discounted returns grow with the number of episodes that were played, so that whoever is evaluated
#   later is better. Compute it from the rewards, or make the environments again.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mo-gymnasium==1.3.2 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import warnings

warnings.simplefilter("ignore")
import mo_gymnasium
import numpy as np
from mo_gymnasium.wrappers import MORecordEpisodeStatistics, vector

NAME = "deep-sea-treasure-v0"
one = MORecordEpisodeStatistics(mo_gymnasium.make(NAME), gamma=0.9)
single = []
for _ in range(4):
    one.reset(seed=0)
    single.append(one.step(1)[4]["episode"]["dr"].round(2).tolist())
many = vector.MORecordEpisodeStatistics(vector.MOSyncVectorEnv([lambda: mo_gymnasium.make(NAME)] * 2), gamma=0.9)
many.reset(seed=0)
returns, discounted = [], []
while len(returns) < 4:
    _, _, ended, _, infos = many.step(np.array([1, 1]))
    if ended[0]:
        returns.append(infos["episode"]["r"][0].round(2).tolist())
        discounted.append(infos["episode"]["dr"][0].round(2).tolist())
print("one environment, discounted:", single)
print("vector, returns:", returns, "discounted:", discounted)
same = np.allclose(single, single[0]) and np.allclose(returns, returns[0])
raise SystemExit(not same or not np.allclose(discounted, np.outer([1, 2, 3, 4], returns[0]), atol=0.02))
EOF
