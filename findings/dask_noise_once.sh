#!/usr/bin/env bash
# A noisy fitness that is submitted twice to Dask is evaluated once
#
# Version: distributed 2026.8.0, dask 2026.8.0
# Belief: Each `submit` of a function, and each item of `map`, is a call of it.
# Seen: `submit` and `map` name a task by the function and its arguments. Two futures of one candidate have one number, four items of a
#   map too, and arrays of equal numbers. With `pure=False` each is a call of its own; `dask.delayed` calls each time.
# Means: A candidate's repeats under noise have a spread of zero, so the noise looks settled; a second look at the best one gives the
#   lucky number again. Give `pure=False`, or the repeat's seed as an argument.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dask==2026.8.0 distributed==2026.8.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import dask
import numpy as np
from dask.distributed import Client


def fitness(candidate):
    return float(np.sum(candidate)) + np.random.default_rng().normal()


with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    different = {
        "submit": len({future.result() for future in [client.submit(fitness, 3.0) for _ in range(4)]}),
        "map": len(set(client.gather(client.map(fitness, [4.0] * 4)))),
        "arrays": len({future.result() for future in [client.submit(fitness, np.ones(3)) for _ in range(4)]}),
        "pure=False": len(set(client.gather(client.map(fitness, [5.0] * 4, pure=False)))),
        "delayed": len(set(dask.compute(*[dask.delayed(fitness)(6.0) for _ in range(4)]))),
    }
print("different numbers in four evaluations of one candidate:", different)
raise SystemExit(different != {"submit": 1, "map": 1, "arrays": 1, "pure=False": 4, "delayed": 4})
EOF
