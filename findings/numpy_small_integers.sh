#!/usr/bin/env bash
# Small integers drawn in two calls are not those of one call
#
# Version: numpy 2.4.6
# Belief: A Generator is a stream: 5 numbers and then 5 more are the first 10, as they are for int64, normal and uniform
#   numbers.
# Seen: With dtype int8 the second call begins at a new word of 32 bits and drops what is left of the last: of lengths 1 to 16
#   only multiples of 4 go on as one call does.
# Means: Sign flips and Rademacher directions drawn as int8 in chunks have other values with each size of chunk, so that a run
#   depends on how its noise was split. Draw int64, or whole words.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np


def same(first, dtype):
    one = np.random.default_rng(1).integers(0, 2, 64, dtype=dtype)
    rng = np.random.default_rng(1)
    two = [rng.integers(0, 2, count, dtype=dtype) for count in (first, 64 - first)]
    return np.array_equal(one, np.concatenate(two))


small = [first for first in range(1, 17) if same(first, np.int8)]
large = [first for first in range(1, 17) if same(first, np.int64)]
print("int8: one stream after a first call of", small)
print("int64: one stream after a first call of", large)
raise SystemExit(small != [4, 8, 12, 16] or large != list(range(1, 17)))
EOF
