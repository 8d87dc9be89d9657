#!/usr/bin/env bash
# An offset of all returns changes the p value of SciPy's exact permutation test
#
# Version: SciPy 1.17.1, numpy 2.4.6
# Belief: With all permutations counted the p value is exact, and a constant that is added to both samples changes nothing.
# Seen: Of 300 comparisons of four returns against four, with one decimal each, the p value is another one in 9 % at an offset of 300, in 12 % at
#   10,000, and in one at 0. Permutations whose means differ by as much as those seen count or not by the last bit: the tolerance is relative to the
#   difference of the means, and the error is relative to the means. 0.743 becomes 0.657. As integers, ten times as large, all are exact.
# Means: The p value of a comparison depends on where the zero of the return lies. Subtract the median of both samples and round, or test the ranks.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import itertools

import numpy as np
from scipy import stats


def exact(a, b):
    pool, n = a + b, len(a)
    sums = [sum(pool[i] for i in chosen) for chosen in itertools.combinations(range(len(pool)), n)]
    return min(1, 2 * min(sum(s >= sum(a) for s in sums), sum(s <= sum(a) for s in sums)) / len(sums))


def tested(a, b):
    return float(stats.permutation_test((a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True, n_resamples=np.inf).pvalue)


holds = True
for offset in (0, 300, 10_000):
    rng, other, whole, largest = np.random.default_rng(0), 0, 0, (0, ())
    for _ in range(300):
        a, b = rng.integers(0, 40, 4), rng.integers(12, 52, 4)
        right = exact(a.tolist(), b.tolist())
        p = tested(offset + a / 10, offset + b / 10)
        other += abs(p - right) > 1e-9
        whole += abs(tested(10 * offset + a, 10 * offset + b) - right) > 1e-9
        largest = max(largest, (abs(p - right), (round(p, 3), round(right, 3))))
    print(f"offset {offset}: another p value in {other} of 300, in {whole} as integers; the largest difference {largest[1] or 'none'}, seen and exact")
    holds &= whole == 0 and (other <= 3 if offset == 0 else other >= 10)
raise SystemExit(not holds)
PROGRAM
