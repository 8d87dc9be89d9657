#!/usr/bin/env bash
# A simulation of GillesPy2 with a seed seeds numpy's and Python's global generators
#
# Version: gillespy2 1.8.3, numpy 2.4.6, scipy 1.17.1
# Belief: `model.run(seed=1)` decides the simulation's noise, and the search's own draws go on.
# Seen: After a run by the tau-leaping or CLE solver `numpy.random` and `random` are where seed 1 leaves them, whatever they were before; the
#   hybrid solver does so with numpy's, the SSA solver in Python with `random`. Three generations of noise that are drawn from there, each
#   after such a fitness, are one noise. Seed 0 is a seed for the SSA solver, and an error for the other three.
# Means: A search that draws its perturbations from a global generator tries the same members in each generation. Draw from a generator of
#   your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gillespy2==1.8.3 numpy==2.4.6 scipy==1.17.1
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import logging
import random

import gillespy2
import numpy as np

logging.disable(logging.CRITICAL)


def run(name, seed):
    model, rate = gillespy2.Model("decay"), gillespy2.Parameter(name="k", expression=0.5)
    start, end = (gillespy2.Species(name=name, initial_value=value) for name, value in (("A", 100), ("B", 0)))
    model.add_parameter(rate)
    model.add_species([start, end])
    model.add_reaction(gillespy2.Reaction(name="r", reactants={start: 1}, products={end: 1}, rate=rate))
    model.timespan(gillespy2.TimeSpan(np.linspace(0, 5, 6)))
    return float(model.run(solver=getattr(gillespy2, name), seed=seed)[0]["A"][-1])


seen, zero = {}, {}
for name in ("NumPySSASolver", "TauLeapingSolver", "TauHybridSolver", "CLESolver"):
    numpy_draws, python_draws = [], []
    for generation in range(3):
        np.random.seed(100 + generation)
        random.seed(100 + generation)
        run(name, 1)
        numpy_draws.append(np.random.normal())
        python_draws.append(random.random())
    seen[name] = len(set(numpy_draws)), len(set(python_draws))
    try:
        zero[name] = run(name, 0)
    except gillespy2.SimulationError:
        zero[name] = "error"
    print(f"{name}: after seeds 100 to 102 and a run, noises by numpy and by random: {seen[name]}; seed 0: {zero[name]}")
holds = list(seen.values()) == [(3, 1), (1, 1), (1, 3), (1, 1)] and list(zero.values())[1:] == ["error"] * 3
raise SystemExit(not (holds and zero["NumPySSASolver"] != "error"))
PROGRAM
