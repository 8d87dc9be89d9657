#!/usr/bin/env bash
# The same fitness has other bits with joblib's n_jobs=1 and n_jobs=2
#
# Version: joblib 1.6.0, numpy 2.4.6, threadpoolctl 3.8.0
# Belief: The number of workers decides where a function runs and not what it returns, if it draws from a seed that it is given.
# Seen: On two cores or more n_jobs=1 runs in the parent, whose BLAS has all cores, and each worker of the default back end gets
#   its share of them, one thread here. Dot products of 10^6 numbers differ for all of 40 seeds, norms of products of 300 x
#   300 for some. The back ends threading and multiprocessing leave the threads as they are and give the parent's bits.
# Means: Ranks of close members change with the number of workers, so a run of a peer on another machine is another run. Set
#   OMP_NUM_THREADS or joblib's inner_max_num_threads to 1 for all numbers of workers before two runs are compared.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet joblib==1.6.0 numpy==2.4.6 threadpoolctl==3.8.0
cat >"$folder/program.py" <<'EOF'
import joblib
import numpy as np
from threadpoolctl import threadpool_info


def fitness(seed):
    drawn = np.random.default_rng(seed)
    a, b = drawn.standard_normal((2, 10**6))
    matrix = drawn.standard_normal((300, 300))
    return float(a @ b), float(np.linalg.norm(matrix @ matrix)), max(pool["num_threads"] for pool in threadpool_info())


if __name__ == "__main__":
    rows = {}
    for jobs, backend in ((1, "loky"), (2, "loky"), (2, "threading")):
        with joblib.parallel_config(backend=backend):
            rows[jobs, backend] = joblib.Parallel(n_jobs=jobs)(joblib.delayed(fitness)(seed) for seed in range(40))
        dots, norms = (sum(x[k] != y[k] for x, y in zip(rows[jobs, backend], rows[1, "loky"])) for k in (0, 1))
        threads = {row[2] for row in rows[jobs, backend]}
        print(f"n_jobs={jobs}, {backend}: BLAS threads {threads}, of 40 seeds {dots} dot products and {norms} norms differ")
    differ = sum(x[:2] != y[:2] for x, y in zip(rows[1, "loky"], rows[2, "loky"]))
    raise SystemExit(not differ or rows[1, "loky"] != rows[2, "threading"])
EOF
"$folder/venv/bin/python" "$folder/program.py"
