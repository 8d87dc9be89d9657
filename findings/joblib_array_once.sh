#!/usr/bin/env bash
# Within one Parallel block joblib's workers see a large array as it was at the first call
#
# Version: joblib 1.6.0, numpy 2.4.6
# Belief: `parallel(delayed(fitness)(centre) for ...)` sends the centre as it is now, in each generation.
# Seen: From 1 MB on an array is written to a file once for a `with Parallel(...)` block, and found again by its identity. A
#   centre that is changed in place between generations is 0, 0, 0 for the workers where it was 0, 1, 2; a smaller one is right,
#   and so is a `Parallel` of its own for each generation.
# Means: A search with a warm pool and a large network evaluates generation 0 for ever, and a small test of it is right. Give a
#   new array in each generation (`centre + step`), or `max_nbytes=None`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet joblib==1.6.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import numpy as np
from joblib import Parallel, delayed


def first(array):
    return float(array[0])


def generations(centre, **options):
    seen = []
    with Parallel(n_jobs=2, **options) as parallel:
        for number in range(3):
            centre[:] = number
            seen.append(max(parallel(delayed(first)(centre) for _ in range(2))))
    return seen


if __name__ == "__main__":
    seen = generations(np.zeros(1000)), generations(np.zeros(300_000)), generations(np.zeros(300_000), max_nbytes=None)
    print("what workers see of a centre that is 0, 1, 2: of 8 kB {}, of 2.4 MB {}, with max_nbytes=None {}".format(*seen))
    raise SystemExit(seen != ([0, 1, 2], [0, 0, 0], [0, 1, 2]))
EOF
"$folder/venv/bin/python" -W ignore program.py
