#!/usr/bin/env bash
# Cantera takes negative fractions for 0, and gives a composition of NaN or zeros a density and a viscosity
#
# Version: cantera 3.2.0, numpy 2.4.6
# Belief: A composition that cannot be is an error, as a temperature of -5 or NaN is.
# Seen: Mole fractions of -0.5 and of -1e6 are the mixture with 0, so that a half space of parameters is one gas. All zeros, or one NaN,
#   are taken: fractions and the pressure are NaN, and density and viscosity are 0.258 and 4.9e-5, finite and right for no gas.
#   Temperatures and pressures of NaN raise, and leave the old state, on which the next evaluation is computed.
# Means: A search without bounds on fractions has a plateau, and a fitness from density or viscosity ranks a diverged member. Use a
#   softmax, and test the parameters.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cantera==3.2.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cantera as ct
import numpy as np


def gas(fractions=None):
    made = ct.Solution("h2o2.yaml")
    made.TPX = 1001, ct.one_atm, "H2:2,O2:1,N2:4"
    if fractions is not None:
        made.X = fractions
    return made


size = gas().n_species
members = [[first] + [0.1] * (size - 1) for first in (0.0, -0.5, -1e6)]
clipped = [np.array_equal(gas(members[0]).X, gas(member).X) for member in members]
print("fractions of 0, -0.5 and -1e6 are one gas:", clipped)
broken = {}
for name, fractions in (("zeros", [0.0] * size), ("one NaN", [float("nan")] + [0.1] * (size - 1))):
    made = gas(fractions)
    broken[name] = made.X[0], made.P, made.density, made.viscosity
    print(f"{name}: fraction {made.X[0]}, pressure {made.P}, density {made.density:.3f}, viscosity {made.viscosity:.2e}")
made = gas()
try:
    made.TP = float("nan"), ct.one_atm
    raised = False
except ct.CanteraError:
    raised = True
print("a temperature of NaN raises:", raised, "and the temperature is", made.T)
finite = all(np.isnan(row[:2]).all() and np.isfinite(row[2:]).all() for row in broken.values())
raise SystemExit(not (all(clipped) and finite and raised and made.T == 1001))
PROGRAM
