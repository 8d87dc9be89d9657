#!/usr/bin/env bash
# Under mpiexec torch takes its share of the cores by itself, and numpy of the same rank takes all of them
#
# Version: torch 2.14.1, numpy 2.4.6, mpich 5.0.2
# Belief: Without OMP_NUM_THREADS each rank of a world has as many threads as the machine has cores, so it must be set.
# Seen: MKL inside of torch reads the launcher's variables (MPI_LOCALNRANKS of MPICH, OMPI_COMM_WORLD_LOCAL_SIZE of Open MPI)
#   and divides the cores by the ranks; any child process inherits them, so an evaluation that a rank starts is as slow.
#   numpy's OpenBLAS takes all cores in each rank. PMI_SIZE alone, as under srun --mpi=pmi2, changes nothing.
# Means: Products and sums have other bits and another speed on one rank, on two, and under srun than under mpiexec. Set
#   torch.set_num_threads and OPENBLAS_NUM_THREADS yourself, and write both down with a timing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 threadpoolctl==3.7.0 mpich==5.0.2
cat >"$folder/program.py" <<'EOF'
import os

import numpy
import torch
from threadpoolctl import threadpool_info

blas = max(pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "openblas")
print(torch.get_num_threads(), blas, len(os.sched_getaffinity(0)), numpy.__name__)
EOF
unset OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS MPI_LOCALNRANKS OMPI_COMM_WORLD_LOCAL_SIZE
cd "$folder"
python="$folder/venv/bin/python"
"$python" program.py >alone
"$folder/venv/bin/mpiexec" -n 2 "$python" program.py >mpiexec
PMI_SIZE=2 PMI_RANK=0 "$python" program.py >pmi
OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$python" program.py >openmpi
for name in alone mpiexec pmi openmpi; do
    echo "$name (threads of torch, of numpy, cores): $(cut -d' ' -f1-3 "$name" | paste -sd';')"
done
"$python" - <<'EOF'
alone, pmi, openmpi = ([int(x) for x in open(name).read().split()[:3]] for name in ("alone", "pmi", "openmpi"))
ranks = [[int(x) for x in line.split()[:3]] for line in open("mpiexec")]
cores = alone[2]
if cores < 2:
    raise SystemExit("one core: nothing to divide")
share = cores // 2
raise SystemExit(not (alone == pmi and all(torch == share < blas for torch, blas, _ in [*ranks, openmpi]) and alone[0] > share))
EOF
