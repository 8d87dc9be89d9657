#!/usr/bin/env bash
# A curve that rises all the time has no trend by two of pymannkendall's tests, and has one once a value is missing
#
# Version: pymannkendall 1.4.3, numpy 2.4.6, scipy 1.17.1
# Belief: The clearest trend there is, a straight line without noise, is a trend for tests that correct for autocorrelation too.
# Seen: For 0, 1, ..., 19 `original_test` has p = 9e-10, `hamed_rao_modification_test` and `yue_wang_modification_test` have "no trend" with
#   p = NaN. With a NaN in place of one value all three say "increasing". A curve that stops as NaN after five of 20 values is
#   "increasing" with p = 0.03.
# Means: A learning curve without noise is counted as no progress. Look at p for NaN, and count the values that a test has used.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pymannkendall==1.4.3 numpy==2.4.6 scipy==1.17.1
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import pymannkendall

line = np.arange(20.0)
gap, stopped = line.copy(), line.copy()
gap[10], stopped[5:] = np.nan, np.nan
seen = {}
for name in ("original_test", "hamed_rao_modification_test", "yue_wang_modification_test"):
    for kind, curve in (("line", line), ("gap", gap)):
        found = getattr(pymannkendall, name)(curve)
        seen[name, kind] = found.trend, float(found.p)
        print(name, kind, *seen[name, kind])
short = pymannkendall.original_test(stopped)
print("diverged after five values:", short.trend, short.p)
holds = all(seen[name, "gap"][0] == "increasing" for name, _ in seen) and seen["original_test", "line"][0] == "increasing"
for name in ("hamed_rao_modification_test", "yue_wang_modification_test"):
    holds &= seen[name, "line"][0] == "no trend" and np.isnan(seen[name, "line"][1])
raise SystemExit(not (holds and short.trend == "increasing" and short.p < 0.05))
PROGRAM
