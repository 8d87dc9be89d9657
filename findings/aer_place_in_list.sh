#!/usr/bin/env bash
# In qiskit-aer a member's shots depend on its place in the list, though all have one seed
#
# Version: qiskit 2.6.2, qiskit-aer 0.18.2, numpy 2.4.6
# Belief: `seed_simulator=1` gives a circuit its shots, alone or in a list, and values bound in one run are as those bound one by one.
# Seen: The first of a list has the shots it has alone; the others have seeds 1 + 2113 i, so that one circuit listed three times has three
#   counts, and changed order changes all. One of three values bound by `parameter_binds` has other counts than alone. qiskit's
#   `StatevectorEstimator(seed=1)` gives each member of a list the same noise, and Aer's `EstimatorV2` another one in each call unless the
#   seed is in `run_options`.
# Means: Members in one list are compared under other noise, alone under common noise. Run them one by one, or average over places.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qiskit==2.6.2 qiskit-aer==0.18.2 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter
from qiskit.primitives import StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp
from qiskit_aer import AerSimulator
from qiskit_aer.primitives import EstimatorV2

angle, simulator = Parameter("angle"), AerSimulator()
network = QuantumCircuit(1, 1)
network.ry(angle, 0)
network.measure(0, 0)


def ones(circuits, **options):
    result = simulator.run(circuits, shots=200, seed_simulator=1, **options).result()
    return [result.get_counts(i).get("1", 0) for i in range(len(result.results))], [entry.seed_simulator for entry in result.results]


members = [network.assign_parameters({angle: value}) for value in (0.7, 1.2, 0.7)]
alone = [ones([member])[0][0] for member in members]
listed, seeds = ones(members)
bound, _ = ones([network], parameter_binds=[{angle: [0.7, 1.2, 0.7]}])
print("alone", alone, "in a list", listed, "seeds", seeds, "bound in one run", bound, "three of one", ones(members[:1] * 3)[0])
bare = network.remove_final_measurements(inplace=False).assign_parameters({angle: 0.7})
task = bare, SparsePauliOp("Z")
exact = [float(entry.data.evs) for entry in StatevectorEstimator(default_precision=0.1, seed=1).run([task] * 3).result()]
aer = {}
for place in ("backend_options", "run_options"):
    estimator = EstimatorV2(options={"default_precision": 0.1, place: {"seed_simulator": 1}})
    aer[place] = [float(estimator.run([task]).result()[0].data.evs) for _ in range(3)]
print("three of one by an estimator:", exact, "by Aer's:", aer)
holds = listed[0] == alone[0] == alone[2] and listed[1] != alone[1] and bound[1] != alone[1] and seeds == [1, 2114, 4227]
raise SystemExit(not (holds and len(set(exact)) == 1 and len(set(aer["backend_options"])) > 1 and len(set(aer["run_options"])) == 1))
PROGRAM
