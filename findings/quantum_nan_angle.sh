#!/usr/bin/env bash
# Shots of a circuit with an angle of NaN are all 1 in qiskit-aer and a number in PennyLane, and an error in cirq
#
# Version: qiskit 2.6.2, qiskit-aer 0.18.2, pennylane 0.45.1, pennylane_lightning 0.45.0, cirq-core 1.7.0, numpy 2.4.6
# Belief: A diverged parameter shows: probabilities of NaN cannot be drawn from.
# Seen: An `ry` of NaN is measured as 1 in 200 of 200 shots of Aer, by statevector, density matrix and matrix product state; an infinite
#   one too. PennyLane's `default.qubit` gives an expectation of exactly 1.0 for 100 shots, the best value, and `lightning.qubit` an
#   ordinary number; `default.mixed` and cirq raise. Without shots all are NaN.
# Means: A member whose angles diverged has the best of all fitnesses, or an ordinary one. Test parameters, not the value.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qiskit==2.6.2 qiskit-aer==0.18.2 pennylane==0.45.1 pennylane_lightning==0.45.0 cirq-core==1.7.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cirq
import numpy as np
import pennylane as qml
from qiskit import QuantumCircuit
from qiskit_aer import AerSimulator

NAN, counts, values = float("nan"), {}, {}
for angle in (0.7, NAN, float("inf")):
    circuit = QuantumCircuit(1)
    circuit.ry(angle, 0)
    circuit.measure_all()
    for method in ("statevector", "density_matrix", "matrix_product_state"):
        counts[angle, method] = AerSimulator(method=method).run(circuit, shots=200, seed_simulator=1).result().get_counts()
        print("aer", method, angle, counts[angle, method])
for name in ("default.qubit", "lightning.qubit", "default.mixed"):

    def network(angle):
        qml.RY(angle, wires=0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    node = qml.QNode(network, qml.device(name, wires=2, seed=1))
    try:
        values[name] = float(qml.set_shots(node, 100)(NAN))
    except ValueError as error:
        values[name] = str(error)
    print(name, "100 shots:", values[name], "exact:", float(node(NAN)))
qubit = cirq.LineQubit(0)
try:
    cirq.Simulator(seed=1).run(cirq.Circuit(cirq.ry(NAN)(qubit), cirq.measure(qubit, key="m")), repetitions=20)
    raised = False
except ValueError as error:
    raised = True
    print("cirq:", error)
ones = all(found == {"1": 200} for (angle, _), found in counts.items() if not np.isfinite(angle))
holds = ones and values["default.qubit"] == 1.0 and raised
raise SystemExit(not (holds and np.isfinite(values["lightning.qubit"]) and isinstance(values["default.mixed"], str)))
PROGRAM
