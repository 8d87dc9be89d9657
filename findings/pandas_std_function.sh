#!/usr/bin/env bash
# A deviation of runs is another number by `agg(np.std)` than by `agg("std")` in pandas 3, and the nearest evaluation is the one before or behind by the library
#
# Version: pandas 2.3.3 and 3.1.1, polars 2.1.0, numpy 2.4.6
# Belief: `groupby("algorithm").agg(np.std)` and `.agg("std")` are one number; a join with the nearest step takes the same row everywhere.
# Seen: Of four returns 1, 2, 4 and 7 pandas 2 makes 2.646 of both. In pandas 3 the function is NumPy's own, which divides by n, and gives 2.291, for a group or
#   a column, as `apply` did before; the name gives 2.646. Of two runs the first is 0.71 of the second. A step that lies halfway between two evaluations takes the one
#   before in `pandas.merge_asof(direction="nearest")`, and the one behind in polars' `join_asof(strategy="nearest")`.
# Means: Error bars of five seeds shrink by 11 % with an update of pandas, of two by 29 %, with no word. Write `"std"`. Evaluations every ten steps shift by ten
#   where steps are odd multiples of five.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >program.py <<'PROGRAM'
import sys

import numpy as np
import pandas as pd

table = pd.DataFrame({"algorithm": ["a"] * 4, "value": [1.0, 2.0, 4.0, 7.0]})
groups = table.groupby("algorithm")["value"]
seen = [
    groups.agg("std").iloc[0],
    groups.agg(np.std).iloc[0],
    table["value"].agg(np.std),
    table[["value"]].apply(np.std).iloc[0],
    groups.agg(["std", np.std]).iloc[0, 1],
]
print(f"pandas {pd.__version__}: 'std', then np.std of a group, of a column, by apply, in a list:", *(f"{value:.3f}" for value in seen))
holds = abs(seen[0] - 7**0.5) < 1e-9 and all(abs(value - (5.25**0.5 if sys.argv[1] == "3" or place == 3 else seen[0])) < 1e-9 for place, value in enumerate(seen) if place)
if sys.argv[1] == "3":
    import polars as pl

    rows, evaluations = {"step": [5, 15, 25]}, {"step": [0, 10, 20, 30], "evaluation": ["0", "10", "20", "30"]}
    first = pd.merge_asof(pd.DataFrame(rows), pd.DataFrame(evaluations), on="step", direction="nearest")["evaluation"].tolist()
    second = pl.DataFrame(rows).join_asof(pl.DataFrame(evaluations), on="step", strategy="nearest")["evaluation"].to_list()
    print("steps 5, 15, 25 take the evaluations at", first, "in pandas,", second, "in polars")
    holds &= first == ["0", "10", "20"] and second == ["10", "20", "30"]
raise SystemExit(not holds)
PROGRAM
for packages in "2 pandas==2.3.3" "3 pandas==3.1.1 polars==2.1.0"; do
    # shellcheck disable=SC2086
    set -- $packages
    python3 -m venv "$folder/venv$1"
    "$folder/venv$1/bin/pip" install --quiet numpy==2.4.6 "${@:2}"
    "$folder/venv$1/bin/python" -W ignore program.py "$1"
done
