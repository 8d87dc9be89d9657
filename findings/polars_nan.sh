#!/usr/bin/env bash
# Polars' maximum hides a diverged run, and its top_k names it
#
# Version: polars 2.1.0
# Belief: A NaN is either missing everywhere, as in pandas, or spreads everywhere, as in numpy.
# Seen: Of 1, NaN, 3, 2: max and arg_max give 3, but sort, top_k, the median and `> 2.5` count the NaN as the greatest, and
#   mean is NaN. `x == x` is true for it, so the usual test finds none.
# Means: The best run of a table is another one by max and by top_k(1), and a filter `return > threshold` counts diverged runs
#   as solved. Use fill_nan(None) right after reading.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0
"$folder/venv/bin/python" - <<'EOF'
import math

import polars as pl

runs = pl.DataFrame({"seed": [0, 1, 2, 3], "score": [1.0, math.nan, 3.0, 2.0]})
score = runs["score"]
solved = runs.filter(pl.col("score") > 2.5)["seed"].to_list()
equal = runs.filter(pl.col("score") == pl.col("score")).height
by_top, by_sort = runs.top_k(1, by="score")["seed"][0], runs.sort("score", descending=True)["seed"][0]
print(f"best by max {score.max()} (seed {score.arg_max()}), by top_k seed {by_top}, by sort seed {by_sort}")
print(f"mean {score.mean()}, median {score.median()}; seeds above 2.5: {solved}; rows with x == x: {equal} of 4")
clean = runs.with_columns(pl.col("score").fill_nan(None))
print("after fill_nan(None): best by top_k seed", clean.top_k(1, by="score")["seed"][0])
kept = score.max() == 3.0 and score.arg_max() == 2 and math.isnan(score.mean()) and score.median() == 2.5
raise SystemExit(not (kept and by_top == by_sort == 1 and solved == [1, 2] and equal == 4))
EOF
