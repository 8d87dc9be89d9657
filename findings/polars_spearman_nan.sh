#!/usr/bin/env bash
# A run that diverged is the largest in polars' rank correlation, NaN in SciPy's and left out by pandas
#
# Version: polars 2.1.0, pandas 3.1.1, SciPy 1.17.1, numpy 2.4.6
# Belief: A NaN makes a correlation NaN, as Pearson's is in polars, or is left out.
# Seen: Of the scores 1, NaN, 2, 3 against 1, 2, 3, 4 polars' Spearman is 0.4, with the NaN as rank four, and its Pearson is NaN. SciPy has NaN
#   for both, pandas 1 for both.
# Means: A proxy score that failed for the best member has a low rank correlation, one that failed for the worst a high one, and no
#   word of either. Filter before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 pandas==3.1.1 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import pandas as pd
import polars as pl
from scipy import stats

truth = [1.0, 2.0, 3.0, 4.0]
seen = {}
for place in (1, 3):
    scores = [1.0, 2.0, 3.0]
    scores.insert(place, float("nan"))
    table, frame = pl.DataFrame({"a": scores, "b": truth}), pd.DataFrame({"a": scores, "b": truth})
    seen[place] = [float(table.select(pl.corr("a", "b", method=method)).item()) for method in ("spearman", "pearson")]
    others = float(stats.spearmanr(scores, truth)[0]), float(frame.corr("spearman").loc["a", "b"])
    print(f"{scores}: polars' Spearman {seen[place][0]:.3g} and Pearson {seen[place][1]:.3g}; SciPy's and pandas' Spearman {others[0]:.3g}, {others[1]:.3g}")
    assert np.isnan(others[0]) and others[1] == 1
raise SystemExit(not (np.allclose([seen[1][0], seen[3][0]], [0.4, 1]) and np.isnan([seen[1][1], seen[3][1]]).all()))
EOF
