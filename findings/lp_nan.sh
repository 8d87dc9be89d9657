#!/usr/bin/env bash
# A NaN in a linear programme is a constraint that is not there, and the result is optimal
#
# Version: scipy 1.17.1, highspy 1.16.0, ortools 9.15.6755, numpy 2.4.6
# Belief: A solver refuses a NaN, as SciPy's `linprog` does for costs and rows.
# Seen: For x + y >= 1 with a coefficient of NaN at x HiGHS and SciPy's `milp` drop the term and call [0, 1] optimal. With a limit of NaN the
#   row is no constraint for OR-tools' GLOP, which calls [0, 0] optimal; `milp` and HiGHS refuse that. A lower bound of NaN is minus
#   infinity in `linprog`, whose x is -4 there. A cost of NaN is optimal in HiGHS, with an objective of NaN.
# Means: A member whose parameters diverged has the cost of an easier problem, which may be the best. Test parameters, not the status.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 highspy==1.16.0 ortools==9.15.6755 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import highspy
from ortools.linear_solver import pywraplp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

NAN, seen = float("nan"), {}


def by_milp(costs, row, limit):
    found = milp(costs, constraints=LinearConstraint([row], limit, float("inf")), bounds=Bounds(0, 10))
    return found.status == 0, found.x if found.x is None else found.x.tolist()


def by_highs(costs, row, limit):
    solver = highspy.Highs()
    solver.silent()
    x, y = (solver.addVariable(0, 10) for _ in range(2))
    solver.addConstr(row[0] * x + row[1] * y >= limit)
    solver.minimize(costs[0] * x + costs[1] * y)
    return solver.getModelStatus() == highspy.HighsModelStatus.kOptimal, list(solver.getSolution().col_value)


def by_glop(costs, row, limit):
    solver = pywraplp.Solver.CreateSolver("GLOP")
    x, y = (solver.NumVar(0, 10, name) for name in "xy")
    solver.Add(row[0] * x + row[1] * y >= limit)
    solver.Minimize(costs[0] * x + costs[1] * y)
    return solver.Solve() == pywraplp.Solver.OPTIMAL, [x.solution_value(), y.solution_value()]


solvers = {"milp": by_milp, "HiGHS": by_highs, "GLOP": by_glop}
problems = {"sound": ([2, 3], [1, 1], 1), "row": ([2, 3], [NAN, 1], 1), "limit": ([2, 3], [1, 1], NAN), "cost": ([NAN, 1], [1, 1], 1)}
for name, solve in solvers.items():
    for place, problem in problems.items():
        try:
            seen[name, place] = solve(*problem)
        except Exception as error:
            seen[name, place] = False, type(error).__name__
        print(f"{name}, NaN in {place}: optimal {seen[name, place][0]}, {seen[name, place][1]}")
bound = linprog([1, -1], A_ub=[[-1, -1]], b_ub=[-1], bounds=[(NAN, 10), (0, 5)])
print("linprog with a lower bound of NaN: optimal", bound.status == 0, bound.x)
holds = all(seen[name, "sound"][0] for name in solvers) and all(seen[name, "row"] == (True, [0, 1]) for name in ("milp", "HiGHS"))
holds &= seen["GLOP", "limit"] == (True, [0, 0]) and seen["HiGHS", "cost"][0] and not seen["milp", "limit"][0]
raise SystemExit(not (holds and not seen["HiGHS", "limit"][0] and bound.status == 0 and bound.x[0] == -4))
PROGRAM
