#!/usr/bin/env bash
# With one NaN among the runs mlxtend's permutation test has a p value of 0, in each direction
#
# Version: mlxtend 0.25.0, numpy 2.4.6
# Belief: The exact p value of a permutation test is at least one over the number of permutations, and NaN where a run diverged.
# Seen: Five runs against five that are all better have p = 0.008. With a NaN in place of one of them p is 0.0, paired or not, for a
#   difference, for a larger and for a smaller mean. By `method='approximate'` it is 0.001, the smallest there is.
# Means: One diverged run makes any comparison significant, with both answers. Remove or rank diverged runs first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlxtend==0.25.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
from mlxtend.evaluate import permutation_test

one, two = [0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.7, 0.8, 0.9, 1.0]
values = []
right = permutation_test(one, two)
for paired in (False, True):
    for function in ("x_mean != y_mean", "x_mean > y_mean", "x_mean < y_mean"):
        exact = permutation_test(one, two[:4] + [float("nan")], func=function, paired=paired)
        drawn = permutation_test(one, two[:4] + [float("nan")], func=function, paired=paired, method="approximate", seed=0)
        print(f"paired {paired}, {function}: exact {exact}, approximate {drawn:.4f}")
        values.append((exact, drawn))
print("without NaN:", right)
raise SystemExit(not (abs(right - 2 / 252) < 1e-9 and all(exact == 0 and drawn < 0.0015 for exact, drawn in values)))
PROGRAM
