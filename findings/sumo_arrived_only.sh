#!/usr/bin/env bash
# A traffic light that blocks one road for ever has half the mean travel time in SUMO
#
# Version: eclipse-sumo 1.28.0, libsumo 1.28.0
# Belief: `vehicleTripStatistics` and `tripinfo` say how long trips take under a controller, so the smallest mean is the best controller.
# Seen: They hold vehicles that have arrived. A light with its usual phases has a mean duration of 98 s for 426 trips of 600 s; one that
#   stays in its first phase has 50 s and a waiting time of 5 s instead of 36, for 223 trips: 152 vehicles stand on the closed road and
#   152 were not let in, and neither counts. With red for all and no teleports no trip ends, and every statistic is 0.00.
# Means: Evolution finds the light that never changes, or never opens. Take `--tripinfo-output.write-unfinished`, add departure delays, or
#   count arrivals.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet eclipse-sumo==1.28.0 libsumo==1.28.0
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import os
import subprocess
import xml.etree.ElementTree as ElementTree

import libsumo
import sumo

os.environ["SUMO_HOME"] = sumo.SUMO_HOME
roads = "".join(f'<edge id="{a}{b}" from="{a}" to="{b}" numLanes="2" speed="14"/>' for a, b in "ab ba bc cb bd db be eb".split())
nodes = "".join(f'<node id="{n}" x="{x}" y="{y}"{k}/>' for n, x, y, k in (("a", 0, 0, ""), ("b", 300, 0, ' type="traffic_light"'),
                ("c", 600, 0, ""), ("d", 300, 300, ""), ("e", 300, -300, "")))
open("n.nod.xml", "w").write(f"<nodes>{nodes}</nodes>")
open("n.edg.xml", "w").write(f"<edges>{roads}</edges>")
subprocess.run([os.path.join(sumo.SUMO_HOME, "bin", "netconvert"), "-n", "n.nod.xml", "-e", "n.edg.xml", "-o", "n.net.xml"],
               check=True, capture_output=True)
trips = enumerate(("ab bc", "cb ba", "db be", "eb bd", "ab bd"))
flows = "".join(f'<flow id="{i}" from="{t[:2]}" to="{t[3:]}" begin="0" end="400" probability="0.25" departLane="random"/>' for i, t in trips)
open("r.rou.xml", "w").write(f"<routes>{flows}</routes>")


def start(*options):
    libsumo.start(["sumo", "-n", "n.net.xml", "-r", "r.rou.xml", "--no-step-log", "true", "--no-warnings", "true", *options])


def statistics(state=None, *options):
    if state:
        phase = f'<tlLogic id="b" type="static" programID="x" offset="0"><phase duration="9999" state="{state}"/></tlLogic>'
        open("light.add.xml", "w").write(f"<additional>{phase}</additional>")
        options = "-a", "light.add.xml", *options
    start("--statistic-output", "s.xml", "--duration-log.statistics", "true", "--log", "log.txt", "--verbose", "false", *options)
    while libsumo.simulation.getTime() < 600:
        libsumo.simulationStep()
    standing, outside = len(libsumo.vehicle.getIDList()), len(libsumo.simulation.getPendingVehicles())
    libsumo.close()
    row = ElementTree.parse("s.xml").getroot().find("vehicleTripStatistics")
    found = {key: float(row.get(key)) for key in ("count", "duration", "waitingTime", "timeLoss")}
    print(state or "usual phases", *options[2:], found, f"on the road {standing}, not let in {outside}", flush=True)
    return found


usual = statistics()
first = next(phase.get("state") for phase in ElementTree.parse("n.net.xml").getroot().find("tlLogic"))
locked = statistics(first)
closed = statistics("r" * len(first), "--time-to-teleport", "-1")
raise SystemExit(not (locked["duration"] < 0.7 * usual["duration"] and locked["count"] < 0.7 * usual["count"] and set(closed.values()) == {0.0}))
PROGRAM
