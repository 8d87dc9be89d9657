#!/usr/bin/env bash
# A percentile of a Dask array is another number for each way in which it is cut, and the mean of its halves NaN
#
# Version: dask 2026.8.0, numpy 2.4.6
# Belief: `da.percentile` of an array in memory is near numpy's percentile: approximate, as its page says.
# Seen: Of 100,000 numbers in one chunk it is. In chunks of 1,000 the first percentile is a third too small in size, and with a last chunk of one number
#   it is -0.1 instead of -12.9: chunks of 33,333 and a remainder of 1. With 10 numbers in chunks of 3 the median of 0 to 9 is 4.33. The
#   mean of 100,000 ones in float16 is NaN, for its sum and its count are, where numpy's is 1.
# Means: A threshold or an elite by percentile depends on the cluster's chunks. Rechunk to one chunk, or take `da.quantile` over an axis of one chunk.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dask==2026.8.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import dask.array as da
import numpy as np

values = np.random.default_rng(0).standard_normal(100_000) ** 3
percents = [1, 50, 99]
right = np.percentile(values, percents)
print("numpy:", right.round(4))
seen = {}
for size in (100_000, 50_000, 33_333, 1_000):
    seen[size] = da.percentile(da.from_array(values, chunks=size), percents).compute()
    print(f"chunks of {size}:", seen[size].round(4))
short = float(da.percentile(da.from_array(np.arange(10.0), chunks=3), 50).compute().item())
print("median of 0 to 9 in chunks of 3:", round(short, 3), "and by numpy", np.percentile(np.arange(10.0), 50))
halves = da.from_array(np.ones(100_000, np.float16), chunks=1_000)
print("mean of float16 ones:", halves.mean().compute(), "and by numpy", np.ones(100_000, np.float16).mean())
exact = np.allclose(seen[100_000], right)
remainder = abs(seen[33_333][0]) < 0.05 * abs(right[0]) and seen[1_000][0] > 0.75 * right[0]
raise SystemExit(not (exact and remainder and short < 4.4 and np.isnan(halves.mean().compute())))
PROGRAM
