#!/usr/bin/env bash
# One p value of NaN takes other comparisons their significance in statsmodels, or all of them
#
# Version: statsmodels 0.15.0, scipy 1.17.1, pandas 3.1.1, numpy 2.4.6
# Belief: A comparison whose p is NaN (two algorithms with equal runs) is left out of a correction for many comparisons, or refused.
# Seen: SciPy's `ttest_ind` of equal runs gives NaN. Beside 0.001, 0.01, 0.02 and 0.03, which Holm, Hochberg and Hommel all reject at 5 %,
#   `multipletests` with the NaN rejects two by Holm's and by Hochberg's method, and none by Hommel's. Benjamini and Hochberg's rejects the
#   same four, but its corrected values, and those of the other step-up methods, are NaN for all. SciPy's own function refuses a NaN.
# Means: A task that every algorithm solves in all runs decides whether other tasks count as better; a table of corrected values is
#   empty, and `corrected < 0.05` false everywhere. Take NaN out first and say how many.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet statsmodels==0.15.0 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from scipy.stats import ttest_ind
from statsmodels.stats.multitest import multipletests

equal = float(ttest_ind([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]).pvalue)
found = {}
for method in ("bonferroni", "holm", "simes-hochberg", "hommel", "fdr_bh"):
    without, _, _, _ = multipletests([0.001, 0.01, 0.02, 0.03], method=method)
    rejected, corrected, _, _ = multipletests([0.001, 0.01, 0.02, 0.03, equal], method=method)
    found[method] = int(without.sum()), int(rejected.sum()), int(np.isnan(corrected).sum())
    print(f"{method}: rejected without NaN {found[method][0]} of 4, with NaN {found[method][1]}; corrected values of NaN: {found[method][2]}")
wanted = {"bonferroni": (2, 2, 1), "holm": (4, 2, 1), "simes-hochberg": (4, 2, 5), "hommel": (4, 0, 5), "fdr_bh": (4, 4, 5)}
raise SystemExit(not (np.isnan(equal) and found == wanted))
EOF
