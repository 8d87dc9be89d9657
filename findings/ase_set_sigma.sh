#!/usr/bin/env bash
# A Lennard-Jones sigma that is set later keeps ASE's old cutoff, below the new sigma: the energy is -5e-15
#
# Version: ase 3.29.0, numpy 2.4.6
# Belief: `LennardJones(sigma=s)` and `calculator.set(sigma=s)` are one potential.
# Seen: The constructor takes three times sigma for the cutoff. `set(sigma=3.4)` on a calculator that was made without arguments leaves
#   the cutoff at 3.0, where the potential of sigma 3.4 is repulsive: two atoms at 3.0 have -5e-15 eV instead of 9.5, and at 4.0 0 instead
#   of -0.94. `set` gives no word.
# Means: Parameters that are evolved through one calculator are scored with the cutoff of the first one; a larger sigma then turns the
#   forces off, which looks like a good fit. Make a new calculator for each member.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ase==3.29.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from ase import Atoms
from ase.calculators.lj import LennardJones

energies = {}
for distance in (3.0, 4.0):
    pair = Atoms("Ar2", [[0, 0, 0], [distance, 0, 0]])
    pair.calc = LennardJones(sigma=3.4)
    made, cutoff = pair.get_potential_energy(), pair.calc.parameters["rc"]
    pair.calc = LennardJones()
    pair.calc.set(sigma=3.4)
    energies[distance] = made, pair.get_potential_energy(), cutoff, pair.calc.parameters["rc"]
    _, later, _, kept = energies[distance]
    print(f"at {distance}: made with sigma 3.4 {made:.3f} (cutoff {cutoff:.1f}), set to it {later:.1e} (cutoff {kept:.1f})")
near, far = energies[3.0], energies[4.0]
raise SystemExit(not (near[0] > 5 and abs(near[1]) < 1e-9 and far[0] < -0.5 and far[1] == 0 and near[2] > 10 and near[3] == 3.0))
PROGRAM
