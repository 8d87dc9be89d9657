#!/usr/bin/env bash
# With parallel=True numba's maximum leaves a NaN out, and its argmax does not
#
# Version: numba 0.68.1, numpy 2.4.6
# Belief: `parallel=True` makes `a.max()` faster, with the result of the function without it, which is numpy's: NaN.
# Seen: `max` and `min` of eight numbers with one NaN are those of the other seven, by one thread and by two, while `argmax` is
#   the place of the NaN; without `parallel=True` all three are numpy's.
# Means: A fitness that was tested serially hides a diverged rollout once it is made parallel, and the place and the value of the
#   best do not belong together. Test `np.isnan(a).any()` as well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numba
import numpy as np


def ends(a):
    return a.max(), a.min(), a.argmax()


serial, parallel = numba.njit(ends), numba.njit(parallel=True)(ends)
holds = True
for place in (0, 3, 7):
    a = np.arange(8.0)
    a[place] = np.nan
    rest = np.delete(a, place)
    alone, several = serial(a), []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        several.append(parallel(a))
    print(f"NaN at {place}: serial {alone}, parallel {several[0]}")
    holds &= np.isnan(alone[0]) and np.isnan(alone[1]) and alone[2] == place
    holds &= all(one == (rest.max(), rest.min(), place) for one in several)
raise SystemExit(not holds)
EOF
