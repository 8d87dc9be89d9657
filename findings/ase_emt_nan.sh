#!/usr/bin/env bash
# In ASE a copper crystal with an atom at NaN has a finite EMT energy and no NaN force
#
# Version: ase 3.29.0, numpy 2.4.6
# Belief: A NaN coordinate is NaN in the energy, as sums over pairs show it.
# Seen: EMT gives 32 atoms with one NaN coordinate 4.58 eV and forces without NaN: the atom has no neighbours, as one that left.
#   Lennard-Jones has NaN. Two atoms at one place have 1456 eV by EMT and NaN by Lennard-Jones, so that the two differ on which divergence
#   they show.
# Means: A diverged structure is ranked between others by EMT. Test positions before the energy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ase==3.29.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from ase import Atoms
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones

seen = {}
for name, calculator in (("EMT", EMT()), ("Lennard-Jones", LennardJones(rc=3.0))):
    crystal = bulk("Cu", cubic=True) * (2, 2, 2)
    crystal.calc = calculator
    whole = crystal.get_potential_energy()
    crystal.positions[0, 0] = np.nan
    broken, forces = crystal.get_potential_energy(), int(np.isnan(crystal.get_forces()).any(1).sum())
    crystal.positions[0] = (1e6, 0, 0)
    pair = Atoms("Cu2", [[0, 0, 0], [0, 0, 0]])
    pair.calc = calculator
    seen[name] = broken, forces, pair.get_potential_energy()
    print(f"{name}: {whole:.3f} eV, with a NaN {broken:.3f}, atoms with NaN forces {forces}; two atoms at one place {seen[name][2]:.1f}")
holds = np.isfinite(seen["EMT"][0]) and seen["EMT"][1] == 0 and np.isfinite(seen["EMT"][2])
raise SystemExit(not (holds and np.isnan(seen["Lennard-Jones"][0]) and np.isnan(seen["Lennard-Jones"][2])))
PROGRAM
