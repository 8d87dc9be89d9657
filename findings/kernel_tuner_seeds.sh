#!/usr/bin/env bash
# Four strategies of Kernel Tuner have no seed, and for 50 evaluations it can return 1,000 results
#
# Version: kernel_tuner 1.5.0, numpy 2.4.6, in simulation from a file of measured times, without a GPU
# Belief: With Python's and NumPy's generators seeded a search over recorded times is repeatable, and with `max_fevals=50` it returns the 50
#   configurations that it measured.
# Seen: Genetic algorithm, swarm, annealing, fireflies and random sampling repeat. Differential evolution, Bayesian optimisation, NSGA-II and
#   NSGA-III draw from generators that no caller sets: two searches of one seed try other configurations. The limit counts distinct
#   configurations and the list of results has a row for each visit: 1,098 for 50 by basin hopping, 74 by the genetic algorithm.
# Means: Means and curves over "evaluations" from the list weigh points by how often they were read from the cache. Drop repeats by configuration,
#   and repeat runs of the four for a spread that no seed can give.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet kernel-tuner==1.5.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import json
import random

import numpy as np
from kernel_tuner import tune_kernel

names = {"block_size_x": list(range(1, 17)), "y": list(range(1, 9)), "z": [1, 2, 4]}
cache = {"device_name": "recorded", "kernel_name": "k", "problem_size": [1024], "tune_params_keys": list(names), "tune_params": names,
         "objective": "time", "cache": {}}
for x in names["block_size_x"]:
    for y in names["y"]:
        for z in names["z"]:
            time = 1 + (x - 9) ** 2 * 0.1 + (y - 3) ** 2 * 0.2 + abs(z - 2)
            cache["cache"][f"{x},{y},{z}"] = {
                "block_size_x": x, "y": y, "z": z, "time": time, "times": [time] * 3, "compile_time": 10.0, "verification_time": 0,
                "benchmark_time": 5.0, "strategy_time": 0.1, "framework_time": 1.0, "timestamp": "2026-01-01T00:00:00+00:00"}
with open("recorded.json", "w") as file:
    json.dump(cache, file)


def search(strategy):
    np.random.seed(1)
    random.seed(1)
    results, _ = tune_kernel("k", "__global__ void k(){}", 1024, [], names, strategy=strategy, strategy_options={"max_fevals": 50},
                             simulation_mode=True, cache="recorded.json", lang="CUDA", quiet=True)
    return [(row["block_size_x"], row["y"], row["z"]) for row in results]


same, rows = {}, {}
for strategy in ("random_sample", "genetic_algorithm", "pso", "simulated_annealing", "firefly_algorithm", "basinhopping",
                 "diff_evo", "bayes_opt", "nsga2", "nsga3"):
    first, second = search(strategy), search(strategy)
    same[strategy], rows[strategy] = first == second, (len(first), len(set(first)))
    print(f"{strategy}: {len(first)} results, {len(set(first))} configurations; a second search of the seed is {'the same' if same[strategy] else 'another'}")
unseeded = [strategy for strategy in same if not same[strategy]]
raise SystemExit(not (unseeded == ["diff_evo", "bayes_opt", "nsga2", "nsga3"] and rows["basinhopping"][0] > 200
                      and all(count <= 50 for _, count in rows.values())))
PROGRAM
