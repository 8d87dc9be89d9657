#!/usr/bin/env bash
# An array in Fortran order is saved with its numbers in the wrong places
#
# Version: safetensors 0.8.0, numpy 2.4.6
# Belief: safetensors.numpy.save writes the array's values, or refuses what is not in C order, as the functions for torch do.
# Seen: A transposed matrix, contiguous in Fortran order, is written as its memory lies under the new shape: it comes back
#   with the right shape and wrong numbers, without a word.
# Means: Weights that come from another layout (`w.T` of an export, a solver's Fortran arrays) are lost silently, and a test
#   of shapes passes. np.ascontiguousarray before save; load and compare.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from safetensors.numpy import load, save

matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
back = load(save({"w": matrix.T}))["w"]
right = load(save({"w": np.ascontiguousarray(matrix.T)}))["w"]
print("saved", matrix.T.tolist(), "loaded", back.tolist())
raise SystemExit(not (back.shape == (3, 2) and not np.array_equal(back, matrix.T) and np.array_equal(right, matrix.T)))
EOF
