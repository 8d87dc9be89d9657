#!/usr/bin/env bash
# OpenMM's Reference platform gives a system with a NaN coordinate a finite energy, where its CPU platform raises
#
# Version: openmm 8.6.1, numpy 2.4.6
# Belief: The Reference platform is the careful one; a NaN position is an error on every platform, or a NaN energy.
# Seen: With a cutoff 200 particles with one NaN coordinate have an energy of -490.02 instead of -495.10 and no NaN in the forces, and
#   steps go on with that particle at NaN, as it is within no cutoff. CPU raises `Particle coordinate is NaN` at the first energy. With
#   bonds, or without a cutoff, Reference has NaN.
# Means: A member that diverged scores as a system with one particle less. Test positions for NaN before an energy is a fitness.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openmm==8.6.1 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import openmm


def context(platform, cutoff=True):
    system, force = openmm.System(), openmm.NonbondedForce()
    system.setDefaultPeriodicBoxVectors((2.2, 0, 0), (0, 2.2, 0), (0, 0, 2.2))
    for particle in range(200):
        system.addParticle(40)
        force.addParticle(0.1 * (-1) ** particle, 0.3, 0.5)
    force.setNonbondedMethod(force.CutoffPeriodic if cutoff else force.NoCutoff)
    system.addForce(force)
    return openmm.Context(system, openmm.VerletIntegrator(0.002), openmm.Platform.getPlatformByName(platform))


grid = np.array([(i, j, k) for i in range(6) for j in range(6) for k in range(6)])[:200] * 0.36
broken = grid.copy()
broken[3, 0] = np.nan
seen = {}
for platform, cutoff in (("Reference", True), ("Reference", False), ("CPU", True)):
    simulation = context(platform, cutoff)
    simulation.setPositions(grid)
    whole = simulation.getState(getEnergy=True).getPotentialEnergy()._value
    simulation.setPositions(broken)
    try:
        simulation.getIntegrator().step(5) if cutoff else None
        state = simulation.getState(getEnergy=True, getForces=True)
        energy, forces = state.getPotentialEnergy()._value, int(np.isnan(state.getForces(asNumpy=True)._value).sum())
    except openmm.OpenMMException as error:
        energy, forces = str(error).split(".")[0], None
    seen[platform, cutoff] = energy
    print(f"{platform}, cutoff {cutoff}: energy {whole:.2f}, with one NaN coordinate {energy}, NaN forces {forces}")
holds = abs(seen["Reference", True] + 490) < 1 and np.isnan(seen["Reference", False])
raise SystemExit(not (holds and seen["CPU", True] == "Particle coordinate is NaN"))
PROGRAM
