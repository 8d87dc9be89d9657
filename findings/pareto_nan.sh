#!/usr/bin/env bash
# A diverged member with a small second objective is the Pareto front, and NSGA-II's result
#
# Version: pymoo 0.6.2, deap 1.4.4, moocore 0.3.2, nevergrad 1.0.12, pygmo 2.20.0, numpy 2.4.6
# Belief: A member whose error is NaN is no good solution, so it is on no front; or it is on it and disturbs no other.
# Seen: No comparison with NaN is true, so only the other objective decides. With an error of NaN and a cost of 0 (a run that ended at
#   once) one member of twenty throws the front's four members out in pymoo, DEAP, moocore and nevergrad, and is the front. In pygmo it
#   is one member of the front. pymoo's NSGA-II on ZDT1, where a tenth of the box gives such values, ends with one point, NaN and 0,
#   and nothing else in its population. Two NaN are on DEAP's front.
# Means: A search for error against time, size or energy ends with networks that diverged early, and hypervolumes leave them out. Give a
#   diverged member the worst value of all objectives.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymoo==0.6.2 deap==1.4.4 moocore==0.3.2 nevergrad==1.0.12 pygmo==2.20.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import deap.base
import deap.creator
import deap.tools
import moocore
import nevergrad
import numpy as np
import pygmo
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.problem import Problem
from pymoo.optimize import minimize
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

deap.creator.create("Fit", deap.base.Fitness, weights=(-1.0, -1.0))
deap.creator.create("Member", list, fitness=deap.creator.Fit)


def by_deap(values):
    members = []
    for number, row in enumerate(values):
        members.append(deap.creator.Member([number]))
        members[-1].fitness.values = tuple(row)
    return [member[0] for member in deap.tools.sortNondominated(members, len(members), first_front_only=True)[0]]


def by_nevergrad(values):
    search = nevergrad.optimizers.RandomSearch(nevergrad.p.Array(shape=(1,)), budget=50)
    for number, row in enumerate(values):
        search.tell(search.parametrization.spawn_child(new_value=np.array([float(number)])), list(row))
    return [int(point.value[0]) for point in search.pareto_front()]


fronts = {
    "pymoo": lambda values: NonDominatedSorting().do(values, only_non_dominated_front=True),
    "DEAP": by_deap,
    "moocore": lambda values: np.flatnonzero(moocore.is_nondominated(values)),
    "nevergrad": by_nevergrad,
    "pygmo": lambda values: pygmo.fast_non_dominated_sorting(values)[0][0],
}
clean = np.random.default_rng(3).random((20, 2))
one, two = clean.copy(), clean.copy()
one[7], two[7] = [np.nan, 0], [np.nan, np.nan]
seen = {}
for name, front in fronts.items():
    seen[name] = [sorted(int(number) for number in front(values)) for values in (clean, one, two)]
    print(f"{name}: front without NaN {seen[name][0]}, with NaN and 0 at member 7 {seen[name][1]}, with two NaN {seen[name][2]}")


class Diverging(Problem):
    def __init__(self):
        super().__init__(n_var=5, n_obj=2, xl=0, xu=1)

    def _evaluate(self, points, out, *args, **kwargs):
        first, rest = points[:, 0], 1 + 9 * points[:, 1:].mean(1)
        out["F"] = np.column_stack([first, rest * (1 - np.sqrt(first / rest))])
        out["F"][points[:, 1] > 0.9] = [np.nan, 0]


result = minimize(Diverging(), NSGA2(pop_size=40), ("n_gen", 60), seed=1)
print("NSGA-II's result:", result.F.tolist(), "members with NaN:", int(np.isnan(result.pop.get("F")).any(1).sum()), "of", len(result.pop))
first = [0, 10, 14, 15]
holds = all(seen[name][:2] == [first, [7]] for name in ("pymoo", "DEAP", "moocore", "nevergrad"))
holds &= seen["pygmo"][1] == sorted([7, *first]) and 7 in seen["DEAP"][2]
raise SystemExit(not (holds and np.isnan(result.pop.get("F")).any(1).all()))
EOF
