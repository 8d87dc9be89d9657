#!/usr/bin/env bash
# Making a PennyLane device draws from numpy's global generator, and no later seed reaches its shots
#
# Version: pennylane 0.45.1, pennylane_lightning 0.45.0, numpy 2.4.6
# Belief: `numpy.random.seed` before an evaluation decides its shots, and making a device draws nothing.
# Seen: A device draws its seed from numpy's global generator when it is made. So a search that draws its noise there has other noise for
#   each device made, and shots of a device that exists do not follow `numpy.random.seed`: the same seed gives other values. Two devices
#   that are made after one seed have other shots. With `seed=1` each device begins alike, and goes on from call to call.
# Means: A device in the fitness changes the noise of the search, and a seed in the fitness does not repeat its shots. Give each device a
#   seed, and make it for each evaluation if that has to repeat.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pennylane==0.45.1 pennylane_lightning==0.45.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import pennylane as qml


def fitness(device):
    def network(angle):
        qml.RY(angle, wires=0)
        return qml.expval(qml.Z(0))

    return float(qml.set_shots(qml.QNode(network, device), 1000)(0.7))


holds = True
for name in ("default.qubit", "lightning.qubit"):
    np.random.seed(0)
    plain = np.random.normal(size=3)
    np.random.seed(0)
    device = qml.device(name, wires=1)
    moved = not np.array_equal(plain, np.random.normal(size=3))
    values = []
    for _ in range(3):
        np.random.seed(0)
        values.append(fitness(device))
    own = [[fitness(device) for _ in range(3)] for device in (qml.device(name, wires=1, seed=1), qml.device(name, wires=1, seed=1))]
    print(f"{name}: numpy's noise moved {moved}; three shots under numpy's seed 0: {values}; seed=1: {own}")
    holds &= moved and len(set(values)) > 1 and own[0] == own[1] and len(set(own[0])) > 1
raise SystemExit(not holds)
PROGRAM
