#!/usr/bin/env bash
# In CasADi a Newton solver or a collocation integrator with a parameter of NaN returns its start as the result
#
# Version: casadi 3.8.2, numpy 2.4.6
# Belief: Solvers raise where they do not converge (they do for an equation without a root), so a NaN raises or is NaN.
# Seen: `rootfinder` by `newton` and `fast_newton` gives the first guess for a parameter of NaN, and `integrator` by `collocation` the
#   initial state, as if nothing had moved; a warning on stderr is all. `kinsol`, `cvodes` and `idas` raise, and `rk` has NaN. `fmin` and
#   `fmax` of a NaN are the other number, `if_else(x > 0, 1, 2)` is 2. Ipopt returns the start and an objective of 0, and says so in
#   `stats()`.
# Means: A diverged controller stands still, and costs nothing. Test parameters for NaN, and read `stats()["success"]`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet casadi==3.8.2 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import casadi as ca
import numpy as np

x, p = ca.SX.sym("x"), ca.SX.sym("p")
seen = {}
for name in ("newton", "fast_newton", "kinsol"):
    find = ca.rootfinder("find", name, {"x": x, "p": p, "g": x**2 + p})
    for value in (-4, 4, np.nan):
        try:
            seen[name, value] = float(find(x0=1, p=value)["x"])
        except RuntimeError:
            seen[name, value] = "raises"
for name in ("rk", "cvodes", "idas", "collocation"):
    flow = ca.integrator("flow", name, {"x": x, "p": p, "ode": p * x**2}, 0, 1)
    for value in (0.5, np.nan):
        try:
            seen[name, value] = float(flow(x0=1, p=value)["xf"])
        except RuntimeError:
            seen[name, value] = "raises"
for key, value in seen.items():
    print(*key, value)
quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"}
solve = ca.nlpsol("solve", "ipopt", {"x": x, "p": p, "f": p * (x - 5) ** 2}, quiet)
result = solve(x0=3, p=np.nan)
objective, success = float(result["f"]), solve.stats()["success"]
print("ipopt: x", result["x"], "objective", objective, "success", success)
values = ca.Function("values", [x], [ca.fmin(x, 1), ca.fmax(x, 1), ca.if_else(x > 0, 1, 2)])(np.nan)
print("fmin, fmax, if_else of NaN:", values)
holds = all(seen[name, key] == 1.0 for name in ("newton", "fast_newton", "collocation") for key in [k[1] for k in seen if k[1] != k[1]][:1])
holds &= [float(value) for value in values] == [1, 1, 2] and objective == 0 and not success and seen["newton", 4] == "raises"
raise SystemExit(not (holds and np.isnan(seen["rk", np.nan]) and seen["cvodes", np.nan] == seen["kinsol", np.nan] == "raises"))
PROGRAM
