#!/usr/bin/env bash
# libRoadRunner's rk45 takes one small step for each point asked for, so that a decay to 8 stays at 99
#
# Version: libroadrunner 2.10.0, numpy 2.4.6
# Belief: An adaptive integrator ends at the time asked for, and the number of points of a curve changes the curve's points alone.
# Seen: A decay of 100 with rate 0.5 is 8.208 after 5 s, by `cvode` with 6, 11 and 501 points. `rk45` says that the time is 5 and the
#   value is about 99, 98 and 40, after 50 s with 6 points 99 too: one small internal step is taken for each interval, and its size
#   depends on the runs before. `rk4` has one step for an interval: after 50 s with 6 points it is at 48,408,684. No error and no warning.
# Means: A fitness by rk45 is nearly the initial state, whatever the parameters, and one by rk4 depends on the number of points. Compare
#   with cvode.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet libroadrunner==2.10.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import math

import numpy as np
import roadrunner

roadrunner.Logger.disableLogging()
SBML = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="c" size="1" constant="true" spatialDimensions="3"/></listOfCompartments>
<listOfSpecies><species id="A" compartment="c" initialAmount="100" hasOnlySubstanceUnits="true" boundaryCondition="false"
constant="false"/></listOfSpecies><listOfParameters><parameter id="k" value="0.5" constant="false"/></listOfParameters>
<listOfReactions><reaction id="r" reversible="false" fast="false"><listOfReactants><speciesReference species="A" stoichiometry="1"
constant="true"/></listOfReactants><kineticLaw><math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>k</ci><ci>A</ci>
</apply></math></kineticLaw></reaction></listOfReactions></model></sbml>"""
model, seen = roadrunner.RoadRunner(SBML), {}
for name in ("cvode", "rk4", "rk45"):
    for end, points in ((5, 6), (5, 11), (5, 501), (50, 6)):
        model.resetAll()
        model.setIntegrator(name)
        time, value = np.array(model.simulate(0, end, points))[-1]
        seen[name, end, points] = value
        print(f"{name}, {points} points: at time {time:g} {value:.6g}, right is {100 * math.exp(-0.5 * end):.6g}")
holds = all(abs(seen["cvode", 5, points] - 8.2085) < 0.01 for points in (6, 11, 501)) and seen["rk4", 50, 6] > 1e7
holds &= min(seen["rk45", 5, 6], seen["rk45", 5, 11], seen["rk45", 50, 6]) > 95 and seen["rk45", 5, 501] > 30
raise SystemExit(not holds)
PROGRAM
