#!/usr/bin/env bash
# Seed 0 of D-Wave's path integral annealing is no seed, and one energy of NaN leaves no lowest sample
#
# Version: dwave-samplers 1.8.0, dimod 0.12.23, numpy 2.4.6
# Belief: "Specifying a particular seed with a constant set of parameters produces identical results", for 0 too.
# Seen: Of three annealing samplers with seed 0 twice, simulated and rotor annealing give the same samples and the path integral one gives
#   others in each call; with seed 1 all three repeat. `SampleSet.lowest()` of energies [NaN, 1, 2] is empty, where `first` is 1.
# Means: The first of the seeds 0 to 4 is the one that cannot be repeated. Begin seeds at 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dwave-samplers==1.8.0 dimod==0.12.23 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import dimod
import numpy as np
from dwave.samplers import PathIntegralAnnealingSampler, RotorModelAnnealingSampler, SimulatedAnnealingSampler

generator = np.random.default_rng(0)
couplings = {(i, j): float(generator.normal()) for i in range(30) for j in range(i)}
model = dimod.BinaryQuadraticModel({}, couplings, "SPIN")
same = {}
for kind in (SimulatedAnnealingSampler, RotorModelAnnealingSampler, PathIntegralAnnealingSampler):
    for seed in (0, 1):
        runs = [kind().sample(model, num_reads=8, seed=seed).record.sample for _ in range(3)]
        same[kind, seed] = all(np.array_equal(runs[0], run) for run in runs)
        print(kind.__name__, "seed", seed, "repeats:", same[kind, seed])
samples = dimod.SampleSet.from_samples([[0, 1], [1, 0], [1, 1]], energy=[float("nan"), 1.0, 2.0], vartype="BINARY")
print("lowest:", samples.lowest().record.energy, "first:", samples.first.energy)
other = [key for key, repeats in same.items() if not repeats]
raise SystemExit(not (other == [(PathIntegralAnnealingSampler, 0)] and len(samples.lowest()) == 0 and samples.first.energy == 1))
PROGRAM
