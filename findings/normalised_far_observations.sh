#!/usr/bin/env bash
# Observations far from zero are normalised by the wrong deviation in EvoTorch, Gymnasium and Stable-Baselines3
#
# Version: evotorch 0.6.1, gymnasium 1.4.0, stable-baselines3 2.9.2, torch 2.14.1, numpy 2.4.6
# Belief: After thousands of observations a running deviation is right to some per cent, whatever the mean.
# Seen: For a mean of 10,000 and a deviation of 1, EvoTorch's RunningNorm (sums of squares in float32) has a deviation of 4.9, and of 0.1,
#   its floor, by another draw; so its outputs deviate by 0.2 or by 10. Its RunningStat has 63. Gymnasium's and Stable-Baselines3's
#   RunningMeanStd begin with a ten-thousandth of an observation at 0: a mean of 1,000 with a deviation of 0.1 has 0.33 after 1,000
#   observations and 0.12 after 20,000. brax's is right (0.097 and 1.01, seen beside).
# Means: A policy sees noise in one library where it sees next to nothing in the other: prices, times, positions in pixels or metres from
#   an origin. Take a constant off first; a float64 counter and a first batch that sets the mean do it too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evotorch==0.6.1 gymnasium==1.4.0 stable-baselines3==2.9.2 torch==2.14.1 numpy==2.4.6
cat >"$folder/deviations.py" <<'EOF'
import logging

import numpy as np
import torch
from evotorch.neuroevolution.net.runningnorm import RunningNorm
from evotorch.neuroevolution.net.runningstat import RunningStat
from gymnasium.wrappers.utils import RunningMeanStd as GymnasiumMeanStd
from stable_baselines3.common.running_mean_std import RunningMeanStd

logging.disable(logging.CRITICAL)


def observations(mean, deviation, count=20_000):
    return np.random.default_rng(1).normal(mean, deviation, (count, 1)).astype(np.float32)


norm = {}
for mean, deviation in ((0, 1), (10_000, 1)):
    seen = torch.from_numpy(observations(mean, deviation))
    running, stat = RunningNorm(shape=(1,), dtype="float32", device="cpu"), RunningStat()
    for batch in seen.split(100):
        running.update(batch)
    for row in seen.numpy():
        stat.update(row)
    norm[mean, deviation] = float(running.stdev), float(running.normalize(seen[:2000]).std()), float(stat.stdev[0])
    numbers = ", ".join(f"{number:.3g}" for number in norm[mean, deviation])
    print(f"EvoTorch, mean {mean}, deviation {deviation}: RunningNorm's deviation, its outputs', RunningStat's: {numbers}")
gym = {}
for count in (1000, 20_000):
    for kind in (GymnasiumMeanStd, RunningMeanStd):
        running = kind(shape=(1,))
        for batch in np.split(observations(1000, 0.1, count), count // 100):
            running.update(batch)
        gym[kind.__module__.split(".")[0], count] = round(float(running.var[0] ** 0.5), 2)
print("mean 1,000, deviation 0.1, by library and observations:", gym)
holds = abs(norm[0, 1][1] - 1) < 0.02 and not 1 / 3 < norm[10_000, 1][0] < 3 and norm[10_000, 1][2] > 10
holds &= all(gym[name, 1000] > 0.3 and 0.11 < gym[name, 20_000] < 0.14 for name in ("gymnasium", "stable_baselines3"))
raise SystemExit(not holds)
EOF
"$folder/venv/bin/python" -W ignore "$folder/deviations.py"
