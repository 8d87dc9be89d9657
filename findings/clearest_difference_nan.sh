#!/usr/bin/env bash
# Where every run of one algorithm beats every run of the other, three tests have p = NaN
#
# Version: scipy 1.17.1, statsmodels 0.15.0, scikit-posthocs 0.17.1, pandas 3.1.1, numpy 2.4.6
# Belief: The clearer a difference, the smaller p; complete separation has the smallest of all.
# Seen: With ten runs against ten, all better, Brunner and Munzel's test has p = NaN in SciPy (0 exactly with
#   `distribution="normal"`, for three against three too) and in statsmodels, with an interval of NaN; one run out of order has p below
#   1e-10. Conover's test after Friedman's has NaN for all pairs where four algorithms are in one order on ten problems, and 0 on three;
#   Nemenyi's test of the same has 0.3 to 1e-6.
# Means: `p < 0.05` is False for the best result that there can be, so a table of many comparisons leaves out its clearest rows; and a p of
#   0 comes from three runs. Count arrangements instead (`mannwhitneyu`, `permutation_test`), and look for NaN among p values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 statsmodels==0.15.0 scikit-posthocs==0.17.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import scikit_posthocs
from scipy.stats import brunnermunzel
from statsmodels.stats.nonparametric import rank_compare_2indep

worse, better, nearly = np.arange(10.0), np.arange(10.0) + 10, np.append(np.arange(10.0)[1:] + 10, 8.5)
p = {
    "separated": float(brunnermunzel(worse, better).pvalue),
    "one out of order": float(brunnermunzel(worse, nearly).pvalue),
    "normal, three runs": float(brunnermunzel([1, 2, 3], [4, 5, 6], distribution="normal").pvalue),
}
print("SciPy's Brunner-Munzel test:", p)
compared = rank_compare_2indep(worse, better)
print("statsmodels: p", compared.pvalue, "interval", compared.conf_int())
pairs = {}
for problems in (3, 10):
    scores = 10.0 * np.arange(problems)[:, None] + np.arange(4)
    conover, nemenyi = (
        test(scores).to_numpy()[0, 1:] for test in (scikit_posthocs.posthoc_conover_friedman, scikit_posthocs.posthoc_nemenyi_friedman)
    )
    pairs[problems] = conover
    print(f"one order on {problems} problems, first against the others: Conover {conover}, Nemenyi {nemenyi}")
holds = np.isnan(p["separated"]) and p["one out of order"] < 1e-10 and p["normal, three runs"] == 0 and np.isnan(compared.pvalue)
raise SystemExit(not (holds and np.isnan(pairs[10]).all() and (pairs[3] == 0).all()))
EOF
