#!/usr/bin/env bash
# Qiskit's NFT moves the start that it is given, so that the second seed begins where the first one ended
#
# Version: qiskit-algorithms 0.4.0, qiskit 2.6.2, numpy 2.4.6
# Belief: `optimizer.minimize(f, x0)` leaves `x0` as it was.
# Seen: The array `x0` is the search's own: after NFT it is the result to the last bit, and a second optimizer that is given the same array starts
#   from a loss of nearly 0. SPSA, GSLS, UMDA, COBYLA, Adam and Nelder-Mead leave it as it was. A list is copied.
# Means: In a loop over seeds or methods with one start, what comes after NFT is a perfect start. Give `x0.copy()`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qiskit-algorithms==0.4.0 qiskit==2.6.2 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from qiskit_algorithms.optimizers import ADAM, COBYLA, GSLS, NELDER_MEAD, NFT, SPSA, UMDA


def search(optimizer, start):
    told = []

    def loss(x):
        told.append(float(((np.asarray(x) - 1) ** 2).sum()))
        return told[-1]

    result = optimizer.minimize(loss, start)
    return told[0], result


moved = {}
for optimizer in (NFT(maxfev=50), SPSA(maxiter=5), GSLS(maxiter=5), UMDA(maxiter=5), COBYLA(maxiter=20), ADAM(maxiter=5), NELDER_MEAD(maxfev=20)):
    start = np.zeros(3)
    _, result = search(optimizer, start)
    moved[type(optimizer).__name__] = bool((start != 0).any())
    if isinstance(optimizer, NFT):
        own = np.array_equal(start, result.x)
start = np.zeros(3)
firsts = [search(NFT(maxfev=50), start)[0] for _ in range(3)]
listed = [0.0, 0.0, 0.0]
search(NFT(maxfev=50), listed)
print("start moved by", moved, "- it is the result:", own)
print("first losses of three searches from one array:", [f"{first:.2g}" for first in firsts], "- a list afterwards:", listed)
raise SystemExit(not (moved.pop("NFT") and not any(moved.values()) and own and firsts[0] == 3 and firsts[1] < 1e-6 and listed == [0, 0, 0]))
PROGRAM
