#!/usr/bin/env bash
# pycma's restarts all begin at the same point, and count their generations each for itself
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: fmin2(restarts=3) searches elsewhere after each restart, and maxiter is for all of it; BIPOP's small populations
#   begin at random points.
# Seen: With x0 as an array all four runs begin at x0 with the same sigma, and maxiter=60 gives each of them 60 generations,
#   so that 3 restarts with doubled populations use 15 times the evaluations of the first run. With bipop=True the small ones
#   begin at x0 too, with a sigma between a fortieth and a half of the first: a second look at one place.
# Means: 'CMA-ES with restarts' from an array is not the method of the published comparisons. Give x0 as a function that draws
#   a point, limit maxfevals and not maxiter.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import cma
import numpy as np

begun = []


class Search(cma.CMAEvolutionStrategy):
    """The same search, which notes where it begins."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        begun.append((self.mean[0], self.sigma, self.popsize))


cma.evolution_strategy.CMAEvolutionStrategy = Search


def rastrigin(x):
    return 10 * len(x) + sum(np.square(x) - 10 * np.cos(2 * np.pi * np.asarray(x)))


def runs(x0, **options):
    begun.clear()
    _, search = cma.fmin2(rastrigin, x0, 0.5, {"verbose": -9, "seed": 1, "maxiter": 60}, **options)
    evaluations = search.result.evaluations
    print([(round(float(mean), 2), round(float(sigma), 3), popsize) for mean, sigma, popsize in begun], evaluations, "evaluations")
    return list(begun), evaluations


first, alone = runs(np.full(5, 3.0), restarts=0)
plain, four = runs(np.full(5, 3.0), restarts=3)
both, _ = runs(np.full(5, 3.0), restarts=3, bipop=True)
drawn, _ = runs(lambda: np.random.uniform(-5, 5, 5), restarts=3)
small = [sigma for _, sigma, popsize in both[1:] if sigma < 0.5]
one_place = {mean for mean, _, _ in plain + both} == {3.0} and len({mean for mean, _, _ in drawn}) == 4
raise SystemExit(not (one_place and four > 12 * alone and small and max(small) < 0.4))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
