#!/usr/bin/env bash
# In mesa the iterations of a batch with a seed are one run
#
# Version: mesa 3.3.1, numpy 2.4.6, pandas 2.3.3
# Belief: `batch_run(..., {'seed': 1}, iterations=5)` repeats five times with seeds of their own.
# Seen: The five rows are one number, with a deviation of 0. Without a seed they differ, and neither `random.seed` nor `numpy.random.seed`
#   decides them.
# Means: An average over iterations is one sample with an error of 0. Sweep seeds as a parameter, with one iteration.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mesa==3.3.1 numpy==2.4.6 pandas==2.3.3
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import random

import mesa
import numpy as np
from mesa.batchrunner import batch_run


class Walker(mesa.Agent):
    def step(self):
        self.model.total += self.random.random() + self.model.rng.random()


class World(mesa.Model):
    def __init__(self, seed=None):
        super().__init__(seed=seed)
        self.total = 0.0
        self.datacollector = mesa.DataCollector(model_reporters={"total": "total"})
        for _ in range(5):
            Walker(self)

    def step(self):
        self.agents.shuffle_do("step")
        self.datacollector.collect(self)


def totals(parameters, iterations=5):
    rows = batch_run(World, parameters, iterations=iterations, max_steps=3, number_processes=1, display_progress=False)
    return [row["total"] for row in rows]


seeded, swept = totals({"seed": 1}), totals({"seed": [1, 2, 3, 4, 5]}, 1)
free = []
for _ in range(2):
    random.seed(0)
    np.random.seed(0)
    free.append(totals({}))
print("five iterations of seed 1:", seeded)
print("five seeds:", [round(total, 3) for total in swept])
print("global seeds decide unseeded ones:", free[0] == free[1])
raise SystemExit(not (len(set(seeded)) == 1 and len(set(swept)) == 5 and free[0] != free[1]))
PROGRAM
