#!/usr/bin/env bash
# A SMAC script that is run again with another fitness evaluates nothing and returns the old incumbent
#
# Version: smac 2.4.1, numpy 2.4.6
# Belief: `optimize()` of a new process evaluates the target function, or says that it goes on with an earlier run.
# Seen: The folder of a run is named by the scenario alone (space, number of trials, seed). After 20 trials of (x - 0.3)^2 the same script
#   with (x - 0.8)^2 calls the function no time and returns x = 0.3 with a cost of 0.0001 or less, where it is 0.24. With 30
#   trials in the scenario it starts afresh.
# Means: A fixed bug, another data set or another reward gives the numbers of before, in no time, with the right exit code. Give
#   `overwrite=True`, or put what the fitness depends on into the scenario's `name`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet smac==2.4.1 numpy==2.4.6
cat >"$folder/search.py" <<'EOF'
import logging
import sys

from ConfigSpace import ConfigurationSpace, Float
from smac import HyperparameterOptimizationFacade, Scenario

logging.disable(logging.CRITICAL)
goal, trials = float(sys.argv[1]), int(sys.argv[2])
calls = []


def fitness(config, seed=0):
    calls.append(config["x"])
    return (config["x"] - goal) ** 2


if __name__ == "__main__":
    space = ConfigurationSpace(seed=0)
    space.add(Float("x", (0.0, 1.0)))
    scenario = Scenario(space, deterministic=True, n_trials=trials, seed=1, output_directory="out")
    search = HyperparameterOptimizationFacade(scenario, fitness)
    best = search.optimize()
    cost = search.runhistory.get_cost(best)
    print(f"goal {goal}, {trials} trials: calls {len(calls)}, x {best['x']:.2f}, cost {cost:.4f}, true cost {(best['x'] - goal) ** 2:.4f}")
EOF
cd "$folder"
for arguments in "0.3 20" "0.8 20" "0.8 30"; do
    venv/bin/python -W ignore search.py $arguments 2>/dev/null | grep goal
done | tee seen
grep -q "goal 0.3, 20 trials: calls 20, x 0.3" seen
grep -q "goal 0.8, 20 trials: calls 0, x 0.3.*true cost 0.2" seen
grep -q "goal 0.8, 30 trials: calls 30" seen
