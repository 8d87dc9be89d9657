#!/usr/bin/env bash
# mpi4py sends a transposed array as it lies in memory, so numbers arrive in other places
#
# Version: mpi4py 4.1.2, mpich 5.0.2, numpy 2.4.6
# Belief: Bcast gives every rank the array of the root, and Allreduce adds element by element; what is not in C order is refused,
#   as a slice with gaps is.
# Seen: An array in Fortran order (`w.T`, an array of LAPACK) counts as contiguous and goes as bytes: ranks with arrays in C order
#   get a matrix of the right shape with its numbers in other places, and a sum adds different elements. No word is said.
# Means: Ranks that built their centre in two ways (one from an export, one from a checkpoint) train different networks from the
#   first broadcast on. Send np.ascontiguousarray(w), and compare a hash of the parameters over ranks.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import numpy as np
from mpi4py import MPI

world, matrix = MPI.COMM_WORLD, np.arange(6.0).reshape(2, 3)
mine = np.asfortranarray(matrix) if world.rank == 0 else matrix.copy()
received = mine.copy(order="K") if world.rank == 0 else np.zeros((2, 3))
world.Bcast(received)
total = np.zeros((2, 3))
world.Allreduce(mine, total)
try:
    world.Bcast(np.arange(12.0).reshape(2, 6)[:, ::2])
    refused = False
except BufferError:
    refused = True
if world.rank == 1:
    print(f"sent {matrix.tolist()}, received {received.tolist()}")
    print(f"twice that by a sum: {total.tolist()}; a slice with gaps is refused: {refused}")
    same = np.array_equal(received, matrix) or np.array_equal(total, 2 * matrix)
    print("numbers are in", "their" if same else "other", "places")
EOF
timeout 100 "$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/program.py" </dev/null | tee "$folder/out"
grep -q "in other places" "$folder/out" && grep -q "refused: True" "$folder/out"
