#!/usr/bin/env bash
# In RDKit a molecule that the force field does not know has an energy of -1, and is the best of many
#
# Version: rdkit 2026.9.1, numpy 2.4.6
# Belief: A force field refuses a molecule with atoms that it has no parameters for, or says NaN.
# Seen: `MMFFOptimizeMoleculeConfs` gives (-1, -1.0) for each conformer of boronic acids, selenium and platinum, where benzene has 14,
#   aspirin 17 and cubane-like cages up to 69 kcal/mol. UFF calls a molecule with platinum or zinc converged, (0, -0.6) and (0, 1.3),
#   though `UFFHasAllMoleculeParams` is False; a lone iron atom has 0.0.
# Means: The minimum of energies prefers molecules that were not computed. Ask `MMFFHasAllMoleculeParams` first, and take the first number
#   of each pair.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rdkit==2026.9.1 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from rdkit import Chem, RDLogger
from rdkit.Chem import AllChem

RDLogger.DisableLog("rdApp.*")
energies, converged = {}, {}
for smiles in ("c1ccccc1", "CC(=O)Oc1ccccc1C(=O)O", "C12C3C4C1C5C2C3C45", "CB(O)O", "C[Se]C", "C[Pt]C", "CC(=O)[O-].[Zn+2]", "[Fe]"):
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    AllChem.EmbedMultipleConfs(molecule, 3, randomSeed=1)
    mmff, uff = AllChem.MMFFOptimizeMoleculeConfs(molecule), AllChem.UFFOptimizeMoleculeConfs(molecule)
    known = AllChem.MMFFHasAllMoleculeParams(molecule), AllChem.UFFHasAllMoleculeParams(molecule)
    energies[smiles], converged[smiles] = min(energy for _, energy in mmff), (uff[0][0], known[1])
    print(f"{smiles}: MMFF {mmff[0]} known {known[0]}, UFF {uff[0]} known {known[1]}")
best = min(energies, key=energies.get)
print("least energy by MMFF:", best)
holds = all(energies[smiles] == -1.0 for smiles in ("CB(O)O", "C[Se]C", "C[Pt]C", "[Fe]")) and energies["c1ccccc1"] > 5
raise SystemExit(not (holds and best == "CB(O)O" and converged["C[Pt]C"] == (0, False) and converged["CC(=O)[O-].[Zn+2]"] == (0, False)))
PROGRAM
