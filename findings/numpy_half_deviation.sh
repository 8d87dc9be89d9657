#!/usr/bin/env bash
# The deviation of float16 fitnesses is infinite in numpy where their mean is right
#
# Version: numpy 2.4.6, torch 2.14.1
# Belief: numpy's mean of float16 numbers is taken in float32, and so are deviation and norm: each is infinite only where it
#   is beyond 65,504.
# Seen: Of 1,000 float16 numbers of 299 and 301 `mean()` is 300 and `std()` is infinite or NaN, where torch has 1;
#   `np.linalg.norm` of 1,000 tens is infinite, torch has 316. A sum over rows (`axis=0`) of 8,192 ones is 2,048, one over
#   columns 8,192.
# Means: Standardised float16 fitnesses are all 0 or NaN, a normalised float16 update is 0, and a sum over members stops at
#   2,048 while one over weights does not. Pass `dtype=np.float32`, or cast.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import torch

fitness, tens = np.tile(np.array([299, 301], np.float16), 500), np.full(1000, 10, np.float16)
means = [float(fitness.mean()), float(torch.from_numpy(fitness).mean())]
deviations = [float(fitness.std()), float(fitness.std(dtype=np.float32)), float(torch.from_numpy(fitness).std())]
norms = [float(np.linalg.norm(tens)), float(torch.from_numpy(tens).norm())]
sums = [float(np.ones(shape, np.float16).sum(axis).max()) for axis, shape in ((0, (8192, 3)), (1, (3, 8192)))]
print("mean of numpy and torch:", *means, "deviation of numpy, numpy in float32, torch:", *deviations)
print("norm of numpy and torch:", *norms, "sums over rows and columns:", *sums)
print("a normalised step:", (tens / np.linalg.norm(tens))[0])
raise SystemExit(
    means != [300.0, 300.0]
    or np.isfinite(deviations[0])
    or not np.allclose(deviations[1:], 1, rtol=1e-2)
    or norms[0] != np.inf
    or not 310 < norms[1] < 320
    or sums != [2048.0, 8192.0]
)
EOF
