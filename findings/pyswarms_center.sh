#!/usr/bin/env bash
# The `center` of a swarm in pyswarms multiplies positions: with a centre of 10 between 5 and 15 it begins between 50 and 150
#
# Version: pyswarms 1.3.0, numpy 2.4.6, scipy 1.17.1
# Belief: `center` "controls the mean or center whenever the swarm is generated randomly": particles begin around it, within the bounds.
# Seen: Positions are `center * uniform(lower, upper)`. With bounds of 5 and 15 and a centre of 10 the complete first iteration is evaluated
#   outside of the bounds, between 51 and 150; with a centre of 0 all particles are one point; without bounds they lie between 0 and the centre. Later
#   iterations stay within the bounds, and where the far points have the better values the returned position is one of them: 142, 121, 150.
# Means: A swarm that should begin at the weights of a trained network begins at their products with random numbers. Give `init_pos`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyswarms==1.3.0 numpy==2.4.6 scipy==1.17.1 setuptools==80.9.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import numpy as np
from pyswarms.single import GlobalBestPSO

LOWER, UPPER = np.full(3, 5.0), np.full(3, 15.0)


def swarm(center, bounds):
    np.random.seed(0)
    evaluated = []

    def loss(points):
        evaluated.append(points.copy())
        return -points.sum(1)

    search = GlobalBestPSO(n_particles=20, dimensions=3, options={"c1": 0.5, "c2": 0.3, "w": 0.9}, bounds=bounds, center=center)
    cost, best = search.optimize(loss, iters=30, verbose=False)
    print(f"centre {center}, bounds {bounds is not None}: first positions {evaluated[0].min():.3g} to {evaluated[0].max():.3g}, later "
          f"{np.min(evaluated[1:]):.3g} to {np.max(evaluated[1:]):.3g}, returned {best.round(1)}")
    return evaluated[0], np.array(evaluated[1:]), best


ten, later, best = swarm(np.full(3, 10.0), (LOWER, UPPER))
zero, _, _ = swarm(np.zeros(3), (-UPPER, UPPER))
free, _, _ = swarm(np.full(3, 10.0), None)
one, _, _ = swarm(1.0, (LOWER, UPPER))
outside = bool(((ten < LOWER) | (ten > UPPER)).all()) and later.min() >= 5 and later.max() <= 15 and bool((best > UPPER).any())
holds = outside and not zero.any() and free.min() >= 0 and free.max() <= 10 and free.max() > 9 and one.min() >= 5 and one.max() <= 15
raise SystemExit(not holds)
PROGRAM
