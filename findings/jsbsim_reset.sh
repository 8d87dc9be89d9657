#!/usr/bin/env bash
# After a reset JSBSim flies with a stopped engine, and with all set again on other bits
#
# Version: jsbsim 1.3.3, numpy 2.4.6
# Belief: `reset_to_initial_conditions` makes the next episode the first one again.
# Seen: Two fresh instances fly the same 600 frames to the bit. After `reset_to_initial_conditions(0)` the engine of a Cessna 172 stands
#   still, and the same controls end 33 feet lower and 8 knots slower, with no error. With every initial condition set again and the
#   engine started the flight is off by 0.008 feet from the first one, so something of it is left; the simulated time runs on.
# Means: All members but the first one of an instance are flown in another aircraft, and their order matters. Make an instance for each
#   member, or start the engine in each reset and accept 1e-2 feet.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jsbsim==1.3.3 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jsbsim
import numpy as np


def begin(aircraft):
    for name, value in (("h-sl-ft", 3000), ("vc-kts", 100), ("gamma-deg", 0), ("psi-true-deg", 90)):
        aircraft["ic/" + name] = value
    aircraft["propulsion/set-running"] = -1
    aircraft.run_ic()
    aircraft["propulsion/set-running"] = -1


def new():
    aircraft = jsbsim.FGFDMExec(None)
    aircraft.set_debug_level(0)
    aircraft.load_model("c172x")
    aircraft.disable_output()
    begin(aircraft)
    return aircraft


def fly(aircraft):
    """Height in feet, speed in knots, roll and pitch after 600 frames."""
    aircraft["fcs/throttle-cmd-norm"], aircraft["fcs/mixture-cmd-norm"] = 0.7, 0.8
    for _ in range(600):
        aircraft["fcs/elevator-cmd-norm"], aircraft["fcs/aileron-cmd-norm"] = -0.05, 0.02
        aircraft.run()
    return np.array([aircraft[name] for name in ("position/h-sl-ft", "velocities/vc-kts", "attitude/phi-rad", "attitude/theta-rad")])


first, fresh, aircraft = fly(new()), fly(new()), new()
fly(aircraft)
aircraft.reset_to_initial_conditions(0)
turns = aircraft["propulsion/engine[0]/propeller-rpm"]
reset = fly(aircraft)
aircraft = new()
fly(aircraft)
begin(aircraft)
again = fly(aircraft)
print("fresh instances the same:", np.array_equal(first, fresh))
print(f"after the reset: propeller {turns:.0f} turns a minute, flight off by", (reset - first).round(3))
print("all set again: off by", again - first)
raise SystemExit(not (np.array_equal(first, fresh) and turns == 0 and reset[0] < first[0] - 10 and 0 < np.abs(again - first).max() < 1))
PROGRAM
