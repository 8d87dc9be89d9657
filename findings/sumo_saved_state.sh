#!/usr/bin/env bash
# `loadState` of SUMO goes on with other random numbers, also where they are saved; a fresh start from the same file is exact
#
# Version: eclipse-sumo 1.28.0, libsumo 1.28.0
# Belief: `saveState` and `loadState` return to a moment, so that members can be tried from one traffic situation; with `--save-state.rng`
#   and all digits exactly.
# Seen: With `--save-state.rng` and 17 digits a loaded state has the saved positions, and a fresh start by `--load-state` and `--begin` has
#   those of the run for 100 s, to the last bit. `simulation.loadState` in the running process has others from the first step on, and after
#   100 s nearly all.
# Means: Members that are compared by `loadState` have other traffic than the run that saved it. Start afresh for each member.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet eclipse-sumo==1.28.0 libsumo==1.28.0
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import os
import subprocess

import libsumo
import sumo

os.environ["SUMO_HOME"] = sumo.SUMO_HOME
netgenerate = os.path.join(sumo.SUMO_HOME, "bin", "netgenerate")
subprocess.run([netgenerate, "--grid", "--grid.number", "3", "--tls.guess", "true", "-o", "n.net.xml"], check=True, capture_output=True)
ways = ("A0A1 A1A2 A2B2", "C0B0 B0B1 B1B2", "A0B0 B0C0 C0C1", "C2C1 C1B1 B1A1", "A1B1 B1C1 C1C2")
flow = '<flow id="{}" begin="0" end="400" probability="0.25" departLane="random"><route edges="{}"/></flow>'
open("r.rou.xml", "w").write(f"<routes>{''.join(flow.format(*way) for way in enumerate(ways))}</routes>")


def start(*options):
    libsumo.start(["sumo", "-n", "n.net.xml", "-r", "r.rou.xml", "--no-step-log", "true", "--no-warnings", "true", *options])


def state(steps=0):
    for _ in range(steps):
        libsumo.simulationStep()
    return [(name, libsumo.vehicle.getPosition(name)) for name in sorted(libsumo.vehicle.getIDList())]


exact = ("--save-state.rng", "true", "--save-state.precision", "17")
start(*exact)
saved = state(100)
libsumo.simulation.saveState("s.xml")
run = [state(1) for _ in range(100)]
libsumo.simulation.loadState("s.xml")
at_once, loaded = state(), [state(1) for _ in range(100)]
libsumo.close()
start(*exact, "--begin", "100", "--load-state", "s.xml")
fresh = [state(1) for _ in range(100)]
libsumo.close()
others = [sum(place not in loaded[step] for place in run[step]) for step in (0, 99)]
print("loaded, equal at once:", saved == at_once, "- vehicles elsewhere after 1 and 100 s:", others, "of", len(run[0]), len(run[99]))
print("a fresh start has the run's positions:", run == fresh)
raise SystemExit(not (saved == at_once and run == fresh and others[0] > 5 and others[1] > 20))
PROGRAM
