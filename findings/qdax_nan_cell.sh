#!/usr/bin/env bash
# In QDax a NaN takes the good solutions of its batch and cell with it, and a NaN descriptor replaces the elite of cell 0
#
# Version: qdax 0.5.0, jax 0.10.2 (CPU)
# Belief: A solution with a NaN is left out, and the others of its batch enter the repertoire as without it.
# Seen: The best of a batch in each cell is a segment maximum, which is NaN, so no solution of that batch enters the cell. A NaN
#   descriptor is nearest to cell 0 for argmin, so its solution replaces what stands there if its fitness is higher. Of equal
#   fitnesses the older stays between batches, and the last wins within one.
# Means: One diverged simulation in a cell costs the batch's progress there, and a diverged descriptor misplaces a behaviour.
#   Replace both before `add`: the fitness by -inf, and with it the descriptor by any finite place.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qdax==0.5.0 jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax.numpy as jnp
from qdax.core.containers.mapelites_repertoire import MapElitesRepertoire, compute_euclidean_centroids

NAN, FIRST, LAST = float("nan"), [0.1, 0.1], [0.9, 0.9]
centroids = compute_euclidean_centroids((2, 2), 0.0, 1.0)


def arrays(genotypes, fitnesses, descriptors):
    return jnp.array(genotypes, float)[:, None], jnp.array(descriptors, float), jnp.array(fitnesses, float)[:, None]


start = MapElitesRepertoire.init(*(arrays([1], [1.0], [FIRST])[i] for i in (0, 2, 1)), centroids)


def added(words, genotypes, fitnesses, descriptors):
    cells = start.add(*arrays(genotypes, fitnesses, descriptors)).fitnesses.ravel().tolist()
    print(f"{words}: fitnesses of the cells {cells}")
    return cells


print("before:", start.fitnesses.ravel().tolist())
alone = added("fitness 2 for the empty last cell", [8], [2.0], [LAST])
batch = added("the same with a NaN of its batch for that cell", [7, 8], [NAN, 2.0], [LAST, LAST])
descriptor = added("fitness 2 with a NaN in its descriptor", [7], [2.0], [[NAN, 0.9]])
raise SystemExit(not (alone[3] == 2 and batch[3] == -float("inf") and descriptor[0] == 2))
EOF
