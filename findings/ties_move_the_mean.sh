#!/usr/bin/env bash
# Equal fitnesses move the mean by more than two sigma
#
# Version: cma 4.5.0, cmaes 0.13.1, deap 1.4.4, numpy 2.4.6
# Belief: Where all members have one fitness there is nothing to learn and the mean stays.
# Seen: All three take the members in the order in which they came as the better ones: in 10 dimensions one generation of
#   equals moves the mean by 2.3 sigma (the three draw alike from one seed).
# Means: Fitnesses with few values (accuracy, survived steps) drive the mean at random, as hard as real progress does. Compare
#   on fitnesses without ties, or share weights among equals.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 cmaes==0.13.1 deap==1.4.4 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cma
import cmaes
import numpy as np
from deap import base, creator
from deap import cma as deap_cma

moved = {}
es = cma.CMAEvolutionStrategy([0.0] * 10, 1.0, {"seed": 1, "verbose": -9})
es.tell(members := es.ask(), [1.0] * len(members))
moved["cma"] = np.linalg.norm(es.mean)
optimizer = cmaes.CMA(mean=np.zeros(10), sigma=1.0, seed=1)
optimizer.tell([(optimizer.ask(), 1.0) for _ in range(optimizer.population_size)])
moved["cmaes"] = np.linalg.norm(optimizer.mean)
creator.create("Fitness", base.Fitness, weights=(-1.0,))
creator.create("Member", list, fitness=creator.Fitness)
np.random.seed(1)
strategy = deap_cma.Strategy(centroid=[0.0] * 10, sigma=1.0)
members = strategy.generate(creator.Member)
for member in members:
    member.fitness.values = (1.0,)
strategy.update(members)
moved["deap"] = np.linalg.norm(strategy.centroid)
for name, distance in moved.items():
    print(f"{name}: one generation of equals moves the mean by {distance:.2f} sigma")
raise SystemExit(bool(min(moved.values()) < 0.5))
EOF
