#!/usr/bin/env bash
# With a rate below 0 a model stands still in two solvers of GillesPy2, grows in a third and is an error in two
#
# Version: gillespy2 1.8.3, numpy 2.4.6, scipy 1.17.1
# Belief: A rate constant below 0 is refused, or its meaning does not depend on the solver.
# Seen: A decay of 100 with rate -0.5 stays at exactly 100 in the SSA and the hybrid solver, is 1,218 after 5 s in the ODE solver, and raises in
#   the tau-leaping and CLE solvers. The model takes the rate without a word; NaN is refused there.
# Means: A search whose rates cross 0 sees a plateau, a smooth fitness or an end, by the solver; where a steady state is wanted, the
#   plateau is the best. Evolve the logarithm of a rate.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gillespy2==1.8.3 numpy==2.4.6 scipy==1.17.1
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import logging

import gillespy2
import numpy as np

logging.disable(logging.CRITICAL)


def run(solver, value):
    model = gillespy2.Model("decay")
    rate = gillespy2.Parameter(name="k", expression=value)
    start, end = (gillespy2.Species(name=name, initial_value=number) for name, number in (("A", 100), ("B", 0)))
    model.add_parameter(rate)
    model.add_species([start, end])
    model.add_reaction(gillespy2.Reaction(name="r", reactants={start: 1}, products={end: 1}, rate=rate))
    model.timespan(gillespy2.TimeSpan(np.linspace(0, 5, 6)))
    seed = {} if solver is gillespy2.ODESolver else {"seed": 1}
    try:
        return round(float(model.run(solver=solver, **seed)[0]["A"][-1]), 2)
    except gillespy2.SimulationError:
        return "error"


seen = {}
for name in ("NumPySSASolver", "TauHybridSolver", "ODESolver", "TauLeapingSolver", "CLESolver"):
    seen[name] = [run(getattr(gillespy2, name), value) for value in (0.5, -0.5)]
    print(f"{name}: of 100 at 5 s with rate 0.5 {seen[name][0]}, with -0.5 {seen[name][1]}")
try:
    run(gillespy2.ODESolver, float("nan"))
    refused = False
except gillespy2.ModelError:
    refused = True
print("NaN is refused:", refused)
last = [ends[1] for ends in seen.values()]
raise SystemExit(not (last[:2] == [100, 100] and last[2] > 1200 and last[3:] == ["error", "error"] and refused))
PROGRAM
