#!/usr/bin/env bash
# A solver object of GillesPy2 simulates its first model, whatever model is run with it
#
# Version: gillespy2 1.8.3, numpy 2.4.6, scipy 1.17.1
# Belief: `model.run(solver=solver)` simulates `model` with its parameters of now.
# Seen: A solver that was made for a decay with rate 0.5 gives the curve of 0.5 after the model's rate was set to 5, and for another model with
#   rate 5 or with 1000 at the start, in the SSA, tau-leaping, hybrid and ODE solvers, without a word. The CLE solver follows the
#   rate of its own model alone. The class in place of an object is right.
# Means: A fitness that makes its solver once gives all members one value. Hand over the class, or make the solver for each member.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gillespy2==1.8.3 numpy==2.4.6 scipy==1.17.1
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gillespy2
import numpy as np


def decay(value, number=100):
    model, rate = gillespy2.Model("decay"), gillespy2.Parameter(name="k", expression=value)
    start, end = (gillespy2.Species(name=name, initial_value=count) for name, count in (("A", number), ("B", 0)))
    model.add_parameter(rate)
    model.add_species([start, end])
    model.add_reaction(gillespy2.Reaction(name="r", reactants={start: 1}, products={end: 1}, rate=rate))
    model.timespan(gillespy2.TimeSpan(np.linspace(0, 1, 6)))
    return model


holds = True
for name in ("NumPySSASolver", "TauLeapingSolver", "TauHybridSolver", "ODESolver", "CLESolver"):
    made, seed = getattr(gillespy2, name), {} if name == "ODESolver" else {"seed": 1}

    def run(model, solver):
        return [round(float(value), 1) for value in model.run(solver=solver, **seed)[0]["A"]]

    model = decay(0.5)
    solver = made(model=model)
    first, other, larger = run(model, solver), run(decay(5.0), solver), run(decay(0.5, 1000), solver)
    model.listOfParameters["k"].expression = "5.0"
    changed, by_class = run(model, solver), run(decay(5.0), made)
    print(f"{name}: first {first[-1]}, rate changed {changed[-1]}, another model {other[-1]}, of 1000 {larger[-1]}, class {by_class[-1]}")
    holds &= first[-1] > 40 and by_class[-1] < 10 and first == other == larger and (first == changed) == (name != "CLESolver")
raise SystemExit(not holds)
PROGRAM
