#!/usr/bin/env bash
# numpy's mean of 4,096 bfloat16 ones is 0.0625
#
# Version: ml_dtypes 0.6.0, numpy 2.4.6
# Belief: A bfloat16 array behaves in numpy as float16 does, with fewer digits.
# Seen: Arrays that come from jax, or from bfloat16 files, have the type of ml_dtypes. Their sum is one running sum in
#   bfloat16: 256 for 4,096 ones, a mean of 0.0625, a deviation of 0.25 where 0 is right, along each axis and by `np.average`.
#   In float8_e4m3fn the sum is 16. `mean(dtype=np.float32)`, `@` and `linalg.norm` are right.
# Means: A check of weights by mean and deviation says that a good checkpoint is broken, and a mean fitness or a mean of
#   members is too small by a factor that grows with their number. Cast to float32 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import ml_dtypes
import numpy as np

seen = {}
for kind in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
    ones = np.ones(4096, kind)
    rows = np.ones((3, 4096), kind).sum(1)[0]
    values = ones.sum(), ones.mean(), ones.std(), np.average(ones), rows, ones.mean(dtype=np.float32), ones @ ones
    seen[kind] = [float(value) for value in values]
    print(ones.dtype, "sum, mean, deviation, average, sum by rows, mean in float32, product:", *seen[kind])
raise SystemExit(
    seen[np.float16] != [4096.0, 1.0, 0.0, 1.0, 4096.0, 1.0, 4096.0]
    or seen[ml_dtypes.bfloat16] != [256.0, 0.0625, 0.25, 0.0625, 256.0, 1.0, 4096.0]
    or seen[ml_dtypes.float8_e4m3fn][:2] != [16.0, 0.00390625]
)
EOF
