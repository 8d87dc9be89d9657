#!/usr/bin/env bash
# Qiskit's SPSA, UMDA and Adam count 40 of 91, 400 of 476 and 20 of 81 evaluations
#
# Version: qiskit-algorithms 0.4.0, qiskit 2.6.2, numpy 2.4.6
# Belief: `result.nfev` is how often the fitness was called, and a start and bounds that are given are used or refused.
# Seen: SPSA of 20 steps says 40 and calls 91 times, as 50 calls for its step size and the last one are left out, for whatever number of steps. UMDA
#   says 400 of 476, Adam without a gradient 20 of 81. GSLS is right. UMDA draws its first generation near pi, whatever start it is given, and
#   returns None where all losses exceed 1e12. Bounds of -0.5 to 0.5 are left by SPSA and UMDA without a word, and kept by GSLS.
# Means: A curve over `nfev` favours SPSA over an evolution strategy by a factor of two. Count in the fitness, and move UMDA's origin to the start
#   minus pi.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qiskit-algorithms==0.4.0 qiskit==2.6.2 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from qiskit_algorithms.optimizers import ADAM, GSLS, SPSA, UMDA
from qiskit_algorithms.utils import algorithm_globals


def search(optimizer, at=0.0, scale=1.0, bounds=None):
    algorithm_globals.random_seed, asked = 1, []

    def loss(x):
        asked.append(np.array(x))
        return scale * float(((x - 1) ** 2).sum())

    result = optimizer.minimize(loss, np.full(3, at), bounds=bounds)
    return result, len(asked), np.array(asked)


said = {}
for make in (lambda: SPSA(maxiter=20), lambda: UMDA(maxiter=20, size_gen=20), lambda: ADAM(maxiter=20), lambda: GSLS(maxiter=20)):
    optimizer = make()
    name = type(optimizer).__name__
    result, calls, _ = search(optimizer)
    inside = search(make(), bounds=[(-0.5, 0.5)] * 3)[2]
    said[name] = result.nfev, calls, np.abs(inside).max()
    print(f"{name}: nfev {result.nfev}, calls {calls}; with bounds of 0.5 the farthest point is {np.abs(inside).max():.3g}")
starts = [search(UMDA(maxiter=2, size_gen=20), at=at)[2] for at in (0.0, 50.0)]
lost = search(UMDA(maxiter=20, size_gen=20), scale=1e14)[0]
print(f"UMDA from 0 and from 50: the same points {np.array_equal(*starts)}, mean of the first 20 {starts[1][:20].mean():.3g}; result of losses above 1e12: {lost.x}")
holds = said["SPSA"][:2] == (40, 91) and said["UMDA"][:2] == (400, 476) and said["ADAM"][:2] == (20, 81) and said["GSLS"][0] == said["GSLS"][1]
holds &= said["SPSA"][2] > 0.6 and said["UMDA"][2] > 0.6 and said["GSLS"][2] <= 0.5
raise SystemExit(not (holds and np.array_equal(*starts) and lost.x is None))
PROGRAM
