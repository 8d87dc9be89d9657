#!/usr/bin/env bash
# On a plateau nevergrad's EDA asks for points at 1e5 to 1e15, and its DE and Cauchy search leave the start by hundreds and thousands
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: Where all losses are equal, a search stays at the scale that it was given: an array without bounds, whose draws have a deviation of 1.
# Seen: In 500 evaluations of a constant loss the largest coordinate that CMA asks for is 1.9, of DiagonalCMA 4, of TwoPointsDE 300 to 800, of DE up
#   to 2,800, of CauchyOnePlusOne up to 98,000, and of EDA 3e5, 1e12 and 2e15 with three seeds: members that are equal replace their parents.
#   After 200 evaluations on a plateau 400 on a sphere end at 1e-6 with CMA and at 2 to 490 with EDA.
# Means: With sparse rewards, all 0 at first, the search has left the useful region before the first success. Bound the parameters, or
#   choose a search that stays.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import nevergrad as ng
import numpy as np

BEST = np.array([1.0, -2.0, 3.0, 0.5])


def search(name, seed, plateau, sphere):
    parameters = ng.p.Array(shape=(4,))
    parameters.random_state.seed(seed)
    optimizer, far, least = ng.optimizers.registry[name](parameters, budget=plateau + sphere), 0.0, np.inf
    for number in range(plateau + sphere):
        candidate = optimizer.ask()
        far = max(far, float(np.abs(candidate.value).max()))
        loss = 1e9 if number < plateau else float(((candidate.value - BEST) ** 2).sum())
        least = min(least, loss)
        optimizer.tell(candidate, loss)
    return far, least


far, least = {}, {}
for name in ("CMA", "DiagonalCMA", "TwoPointsDE", "DE", "CauchyOnePlusOne", "EDA"):
    far[name] = [search(name, seed, 500, 0)[0] for seed in (1, 2, 3)]
    least[name] = [search(name, seed, 200, 400)[1] for seed in (1, 2, 3)]
    print(f"{name}: largest coordinate on the plateau {', '.join(f'{x:.2g}' for x in far[name])}; best of 400 on a sphere after 200 on a plateau "
          f"{', '.join(f'{x:.2g}' for x in least[name])}")
raise SystemExit(not (max(far["CMA"]) < 3 and max(far["DiagonalCMA"]) < 6 and min(far["TwoPointsDE"]) > 100 and min(far["DE"]) > 100
                      and max(far["CauchyOnePlusOne"]) > 1e4 and min(far["EDA"]) > 1e5 and max(far["EDA"]) > 1e12
                      and max(least["CMA"]) < 1e-4 and min(least["EDA"]) > 1))
PROGRAM
