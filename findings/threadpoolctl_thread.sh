#!/usr/bin/env bash
# A limit of threadpoolctl holds in other Python threads for OpenBLAS, and not for OpenMP
#
# Version: threadpoolctl 3.8.0, scikit-learn 1.9.1, numpy 2.4.6
# Belief: threadpool_limits(1) around a pool of Python threads keeps each of them to one thread.
# Seen: The number of threads of an OpenMP runtime (scikit-learn's libgomp; torch and numba bring two more) belongs to the thread
#   that sets it. A thread that starts within the limit has all cores in OpenMP, and one in OpenBLAS, whose number is the process's.
# Means: Members that are scored by threads of Python take threads x cores in OpenMP loops, although the script limits them. Set
#   OMP_NUM_THREADS before the start, or the limit within each thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet threadpoolctl==3.8.0 scikit-learn==1.9.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import threading

import numpy
import sklearn.cluster
from threadpoolctl import threadpool_info, threadpool_limits


def threads():
    found = {"openmp": set(), "blas": set()}
    for pool in threadpool_info():
        found[pool["user_api"]].add(pool["num_threads"])
    return found


print("numpy", numpy.__version__, "sklearn", sklearn.__version__, "at the start:", threads())
seen = []
with threadpool_limits(1):
    here = threads()
    other = threading.Thread(target=lambda: seen.append(threads()))
    other.start()
    other.join()
print("within threadpool_limits(1), the same thread:", here)
print("within threadpool_limits(1), a new thread:   ", seen[0])
as_said = here == {"openmp": {1}, "blas": {1}} and seen[0]["blas"] == {1} and min(seen[0]["openmp"]) > 1
raise SystemExit(not as_said)
EOF
env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS "$folder/venv/bin/python" "$folder/program.py"
