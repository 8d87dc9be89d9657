#!/usr/bin/env bash
# numba's median of losses with a NaN is a number or NaN, by the NaN's place
#
# Version: numba 0.68.1, numpy 2.4.6
# Belief: A compiled `np.median` is numpy's: NaN where one number is.
# Seen: Of the losses 1, 2, 3, 4, 5 and one NaN the compiled median is 3.5 where the NaN is first, second or last, and NaN in
#   the other three places; numpy's is always NaN. `np.percentile` and `np.quantile` of 50 are NaN in both, `np.nanmedian` is
#   3 in both. `np.argsort` of equal fitnesses is in another order than theirs, as numba's quicksort is not stable;
#   `kind="mergesort"` is.
# Means: A diverged run is hidden in a median of seeds once the loop is compiled, and ranks of ties move. Check `np.isfinite`
#   first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from numba import njit

median, percentile = njit(lambda x: np.median(x)), njit(lambda x: np.percentile(x, 50))
nanmedian, argsort = njit(lambda x: np.nanmedian(x)), njit(lambda x: np.argsort(x))
found = {"median": [], "percentile": [], "nanmedian": []}
for place in range(6):
    losses = np.insert(np.arange(1.0, 6.0), place, np.nan)
    assert np.isnan(np.median(losses))
    for name, function in (("median", median), ("percentile", percentile), ("nanmedian", nanmedian)):
        found[name].append(float(function(losses)))
print("with one NaN in each of six places:", found)
ties = np.zeros(100)
stable = [bool((function(ties) == np.arange(100)).all()) for function in (np.argsort, argsort)]
print("equal numbers stay in order, numpy and numba:", *stable)
raise SystemExit(
    not np.array_equal(found["median"], [3.5, 3.5, np.nan, np.nan, np.nan, 3.5], equal_nan=True)
    or not np.isnan(found["percentile"]).all()
    or found["nanmedian"] != [3.0] * 6
    or stable[1]
)
EOF
