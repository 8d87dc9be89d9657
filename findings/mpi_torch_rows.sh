#!/usr/bin/env bash
# mpi4py sends the whole population with one row of it, where the row is torch's
#
# Version: mpi4py 4.1.2, mpich 5.0.2, torch 2.14.1, numpy 2.4.6
# Belief: comm.bcast(population[best]) sends one member; a slice is as large as its numbers.
# Seen: A pickled torch view carries all of its storage: of a population of 64 members of 10,000 numbers the best row is 2.56
#   MB on the wire, 64 times its size, and the receiver keeps all of it in memory as long as the row lives. A numpy row is 40
#   kB. A row that was received and is sent on carries all others again. clone() sends the row.
# Means: A generation's traffic grows with the square of the population and nobody sees why; with it go the other members,
#   which may be private. The same holds for joblib, Ray and multiprocessing by pickle. Send row.clone() or row.numpy().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mpi4py==4.1.2 mpich==5.0.2 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from mpi4py import MPI

world, population = MPI.COMM_WORLD, torch.randn(64, 10_000)
sent = {"torch": population[3], "clone": population[3].clone(), "numpy": population.numpy()[3]}
held = {}
for name, row in sent.items():
    received = world.bcast(row if world.rank == 0 else None)
    size = received.nbytes if name == "numpy" else received.untyped_storage().nbytes()
    held[name] = size, len(MPI.pickle.dumps(received))
if world.rank == 1:
    for name, (size, again) in held.items():
        print(f"a row of 40,000 bytes as {name}: {size:,} bytes in memory where it arrived, {again:,} if it is sent on")
    large = min(held["torch"]) >= population.nbytes
    print("whole population" if large and max(held["clone"] + held["numpy"]) < 50_000 else "one row")
EOF
timeout 100 "$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" -W ignore "$folder/program.py" </dev/null | tee "$folder/out"
grep -q "^whole population" "$folder/out"
