#!/usr/bin/env bash
# One search over one parameter changes nevergrad's CMA-ES for all later searches of the process
#
# Version: nevergrad 1.0.12, cma 4.5.0, fcmaes 2.1.0, numpy 2.4.6
# Belief: `ng.optimizers.registry["CMAstd"]` is one algorithm, whatever ran before.
# Seen: A search over one parameter switches the registered object to the CMA-ES of fcmaes, and it stays so: the same search over three parameters, with the same
#   seed, has other points after it than before, in OldCMA, DiagonalCMA and CMAstd, and DiagonalCMA is not diagonal any more. Without fcmaes the later
#   search ends in an ImportError. And `CMA` over one parameter is OnePlusOne, to the last bit.
# Means: Results over a set of problems depend on their order in the process, and on which worker had a problem of one parameter. Run each search in a process of
#   its own, or make a new `ParametrizedCMA()` for each.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 cma==4.5.0 fcmaes==2.1.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import nevergrad as ng
import numpy as np

BEST = np.array([1.0, -2.0, 3.0])


def search(name, dimensions):
    parameters, losses = ng.p.Array(shape=(dimensions,)), []
    parameters.random_state.seed(1)
    optimizer = ng.optimizers.registry[name](parameters, budget=150)
    for _ in range(150):
        candidate = optimizer.ask()
        losses.append(float(((candidate.value - BEST[:dimensions]) ** 2).sum()))
        optimizer.tell(candidate, losses[-1])
    return losses


holds = True
for name in ("OldCMA", "DiagonalCMA", "CMAstd"):
    before, again = search(name, 3), search(name, 3)
    search(name, 1)
    after = search(name, 3)
    print(f"{name}: twice the same {before == again}; the same after a search over one parameter {before == after}; best {min(before):.2g} and {min(after):.2g}")
    holds &= before == again != after
alike = search("CMA", 1) == search("OnePlusOne", 1)
print("CMA over one parameter is OnePlusOne:", alike)
raise SystemExit(not (holds and alike))
PROGRAM
