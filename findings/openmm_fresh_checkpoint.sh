#!/usr/bin/env bash
# An OpenMM checkpoint that is loaded into a fresh context goes on with other bits, and into one that has run with the same
#
# Version: openmm 8.6.1, numpy 2.4.6
# Belief: A checkpoint holds all that a run needs, noise included; on one thread a resume is exact.
# Seen: On the CPU platform with one thread a Langevin run differs from its resume in a fresh context after 20 steps, by 1e-10 nm, and
#   then exponentially. In the context it was saved in, or in one that has taken ten steps before, the resume is exact; so it is on
#   Reference. A state (`getState`, `setState`) leaves the noise out: it resumes with other noise, 0.006 nm away.
# Means: A member that is resumed in another process is another trajectory. Take some steps before `loadCheckpoint`, or do not compare
#   bits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openmm==8.6.1 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import openmm

grid = np.array([(i, j, k) for i in range(6) for j in range(6) for k in range(6)])[:200] * 0.36


def context(platform, warm=0):
    system, force = openmm.System(), openmm.NonbondedForce()
    system.setDefaultPeriodicBoxVectors((2.2, 0, 0), (0, 2.2, 0), (0, 0, 2.2))
    for particle in range(200):
        system.addParticle(40)
        force.addParticle(0.1 * (-1) ** particle, 0.3, 0.5)
    force.setNonbondedMethod(force.CutoffPeriodic)
    system.addForce(force)
    integrator = openmm.LangevinMiddleIntegrator(300, 1, 0.002)
    integrator.setRandomNumberSeed(1)
    properties = {"Threads": "1"} if platform == "CPU" else {}
    made = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform), properties)
    made.setPositions(grid)
    integrator.step(warm)
    return made


def go_on(simulation):
    simulation.getIntegrator().step(20)
    return simulation.getState(getPositions=True).getPositions(asNumpy=True)._value


far = {}
for platform in ("Reference", "CPU"):
    saved = context(platform, 10)
    checkpoint, state = saved.createCheckpoint(), saved.getState(getPositions=True, getVelocities=True)
    right = go_on(saved)
    fresh, warm, plain = context(platform), context(platform, 10), context(platform)
    for key, resumed in (("same", saved), ("fresh", fresh), ("warm", warm)):
        resumed.loadCheckpoint(checkpoint)
        far[platform, key] = np.abs(go_on(resumed) - right).max()
    plain.setState(state)
    far[platform, "state"] = np.abs(go_on(plain) - right).max()
for key, value in far.items():
    print(*key, value)
zero = [key for key, value in far.items() if value == 0]
raise SystemExit(bool(len(zero) != 5 or ("CPU", "fresh") in zero or min(far["CPU", "state"], far["Reference", "state"]) < 1e-4))
PROGRAM
