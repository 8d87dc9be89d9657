#!/usr/bin/env bash
# A list of the means of a cmaes run is the last mean over and over, and `tell` sorts the list that it is given
#
# Version: cmaes 0.13.1, numpy 2.4.6
# Belief: `optimizer.mean` is the mean of now, and the list of solutions that is told stays as it is.
# Seen: CMA, SepCMA, MAPCMA and CMAwM add each step to one array and hand that array out: ten means that were kept during a run are one array, equal to
#   the last one, so that the distance from the first to the last is 0. CMA with `lr_adapt=True` hands out a new array in each generation,
#   which the next step still moves. `tell` sorts the list by fitness in place, so that member k of the list is another one than member k of the generation.
# Means: A curve of the mean's loss that is computed at the end is flat, the mean of the best generation is the last one, and an average over generations
#   averages nothing. Names, seeds or times that were kept by member go to others. Keep `optimizer.mean.copy()`, and tell a copy of the list.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cmaes==0.13.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cmaes
import numpy as np

box, steps = np.array([[-9.0, 9.0]] * 4), np.array([0, 0, 1.0, 1.0])
kinds = {
    "CMA": lambda: cmaes.CMA(mean=np.zeros(4), sigma=1.0, seed=1),
    "SepCMA": lambda: cmaes.SepCMA(mean=np.zeros(4), sigma=1.0, seed=1),
    "MAPCMA": lambda: cmaes.MAPCMA(mean=np.zeros(4), sigma=1.0, seed=1),
    "CMAwM": lambda: cmaes.CMAwM(mean=np.zeros(4), sigma=1.0, seed=1, bounds=box, steps=steps),
    "CMA, lr_adapt": lambda: cmaes.CMA(mean=np.zeros(4), sigma=1.0, seed=1, lr_adapt=True),
}
holds = True
for name, make in kinds.items():
    search, kept, copies, moved, changed = make(), [], [], 0, 0
    for _ in range(10):
        kept.append(search.mean)
        copies.append(search.mean.copy())
        asked = [search.ask() for _ in range(search.population_size)]
        members = [member if isinstance(member, tuple) else (member, member) for member in asked]
        told = [(drawn, float(((shown - 3) ** 2).sum())) for shown, drawn in members]
        order = [id(drawn) for drawn, _ in told]
        search.tell(told)
        changed += bool((kept[-1] != copies[-1]).any())
        moved += sum(place != id(drawn) for place, (drawn, _) in zip(order, told))
    far = [float(np.linalg.norm(means[-1] - means[0])) for means in (kept, copies)]
    print(f"{name}: first to last of ten kept means {far[0]:.3g}, of ten copies {far[1]:.3g}; {changed} of 10 means changed by the next step; {moved} members at another place of their list")
    holds &= far[1] > 1 and moved > 40 and changed == 10 and (far[0] > 1 if name == "CMA, lr_adapt" else far[0] == 0)
raise SystemExit(not holds)
PROGRAM
