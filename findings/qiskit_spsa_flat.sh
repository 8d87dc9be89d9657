#!/usr/bin/env bash
# Where its first 50 evaluations are equal, Qiskit's SPSA asks for NaN from then on, and ends as usual
#
# Version: qiskit-algorithms 0.4.0, qiskit 2.6.2, numpy 2.4.6
# Belief: On a plateau a finite difference is 0 and SPSA stays where it is.
# Seen: The step size is set by the mean difference of 25 pairs around the start. Where all are equal it is infinite, the first step is infinity
#   times 0, and all parameters are NaN for the rest of the run; a fitness that answers a NaN with a number gives a result with that number as `fun`
#   and no error. With a given `learning_rate` and `perturbation` the plateau is harmless.
# Means: A reward that is 0 at first, or an accuracy on few examples, ends the search at its start. The step is otherwise free of the fitness's
#   scale. Give both settings.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qiskit-algorithms==0.4.0 qiskit==2.6.2 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from qiskit_algorithms.optimizers import SPSA
from qiskit_algorithms.utils import algorithm_globals


def search(loss, **options):
    algorithm_globals.random_seed, asked = 1, []

    def counted(x):
        asked.append(np.array(x))
        return loss(x, len(asked))

    result = SPSA(maxiter=20, **options).minimize(counted, np.zeros(3))
    return result, asked


def sparse(x, call):
    return 1.0 if call <= 50 or not np.abs(x).max() > 0.5 else float(((x - 1) ** 2).sum())


plain, _ = search(lambda x, call: float(((x - 1) ** 2).sum()))
scaled, _ = search(lambda x, call: 1e-6 * float(((x - 1) ** 2).sum()))
flat, asked = search(lambda x, call: 5.0)
late, later = search(sparse)
given, _ = search(lambda x, call: 5.0, learning_rate=0.1, perturbation=0.1)
print(f"sphere: {np.round(plain.x, 2)}, a millionth of it {np.round(scaled.x, 2)}")
print(f"flat: x {flat.x}, fun {flat.fun}; of {len(asked)} points {sum(np.isnan(x).any() for x in asked)} are NaN")
print(f"flat for 50 evaluations, then a slope: x {late.x}, fun {late.fun}; with given steps on the plateau {given.x}")
holds = np.allclose(plain.x, scaled.x) and np.isnan(flat.x).all() and flat.fun == 5.0 and np.isnan(late.x).all() and (given.x == 0).all()
raise SystemExit(not holds)
PROGRAM
