#!/usr/bin/env bash
# In OpenMDAO a diverged member has the fitness of the member before, and the member after it is NaN
#
# Version: openmdao 3.45.1, numpy 2.4.6, scipy 1.17.1
# Belief: `run_model` is a function of the inputs that were set; a member with NaN is NaN, and one after it is what it is alone.
# Seen: A cycle of two components with x = 0.5, 0.5, NaN, 0.5 in one problem. With Newton and with block Jacobi the coupled value of the third is
#   that of the second, 0.909, to the bit (in a fresh problem its start, 1.0), and the fourth is NaN. With block Gauss-Seidel
#   and Broyden the third is NaN, and so is the fourth. Without NaN a member where a solver does not converge (x = 8) has another value in a fresh
#   problem than after others, 0.11 and -0.73, with no error.
# Means: The fitness of NaN weights is a good one, and the error is laid to a sound member. Set up a problem for each member, or set
#   its coupled values back, and set `err_on_non_converge`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openmdao==3.45.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import contextlib
import io
import math

import openmdao.api as om

NAN = float("nan")


def problem(solver):
    made = om.Problem(reports=False)
    made.model.add_subsystem("a", om.ExecComp("y=cos(x*z)"), promotes=["x"])
    made.model.add_subsystem("b", om.ExecComp("z=0.9*y+0.1"))
    made.model.connect("a.y", "b.y")
    made.model.connect("b.z", "a.z")
    kinds = {"Newton": om.NewtonSolver, "Jacobi": om.NonlinearBlockJac, "Gauss-Seidel": om.NonlinearBlockGS, "Broyden": om.BroydenSolver}
    chosen = kinds[solver]()
    if solver == "Newton":
        chosen.options["solve_subsystems"] = False
    chosen.options.set(maxiter=20, iprint=-1, rtol=1e-8, atol=1e-10)
    made.model.nonlinear_solver, made.model.linear_solver = chosen, om.DirectSolver()
    made.setup()
    return made


def scored(made, x):
    made.set_val("x", x)
    with contextlib.redirect_stdout(io.StringIO()):
        made.run_model()
    return float(made.get_val("b.z")[0])


seen, holds = {}, True
for solver in ("Newton", "Jacobi", "Gauss-Seidel", "Broyden"):
    one = problem(solver)
    row = [scored(one, x) for x in (0.5, 0.5, NAN, 0.5)]
    fresh = scored(problem(solver), NAN)
    another = problem(solver)
    far = [scored(another, x) for x in (0.5, 2.0, 8.0)][-1], scored(problem(solver), 8.0)
    print(f"{solver}: 0.5, 0.5, NaN, 0.5 are {row}, NaN in a fresh problem {fresh}, 8 after others and alone {far}")
    kept = row[2] == row[1] and fresh == 1 if solver in ("Newton", "Jacobi") else math.isnan(row[2])
    holds &= abs(row[0] - 0.9087) < 1e-3 and kept and math.isnan(row[3]) and abs(far[0] - far[1]) > 0.1
raise SystemExit(not holds)
PROGRAM
