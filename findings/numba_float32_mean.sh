#!/usr/bin/env bash
# A compiled np.mean of float32 numbers returns a float64 that is wrong by half
#
# Version: numba 0.68.1, numpy 2.4.6; AMD Zen 4, Intel Xeon with AMX
# Belief: np.mean and np.sum in a compiled function are numpy's, pairwise sums included, or sum in float64, as the result is a
#   Python float.
# Seen: They keep one running sum in float32: the mean of 5 * 10^7 numbers of 0.1 is 0.042, as the sum stands still at 2^21.
# Means: Mean losses and sums over noise in compiled kernels lose their digits with the number of terms, silently. Give the
#   accumulator a float64 of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numba==0.68.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numba
import numpy as np


@numba.njit
def mean(x):
    return np.mean(x)


x = np.full(50_000_000, 0.1, np.float32)
print("numpy", float(np.mean(x)), "numba", mean(x), type(mean(x)).__name__)
raise SystemExit(abs(np.mean(x) - 0.1) > 1e-6 or mean(x) > 0.05)
EOF
