#!/usr/bin/env bash
# pyarrow's groups keep 0.0 apart from -0.0 and one NaN from another, and its joins do not find 0.0
#
# Version: pyarrow 26.0.1, pandas 3.1.1, numpy 2.4.6
# Belief: Runs with equal settings are one group.
# Seen: `group_by` and `unique` make two groups of sigma 0.0 and -0.0, and two of `np.nan` and of the NaN that 0/0 gives on x86 (its sign
#   bit is set): four groups, printed as 0, -0, nan and nan. A join on that column finds no partner for 0.0 where the other table has
#   -0.0. pandas, polars and DuckDB make two groups and join.
# Means: A setting that was computed (a decay of `-0.0`, `0 * -1`) and the same one that was written count as two, with half of the runs
#   each, and rows are missing after a join. Add 0.0 to the column first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyarrow==26.0.1 pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import pandas
import pyarrow
import pyarrow.compute

with np.errstate(invalid="ignore"):
    computed = -np.abs(np.array([0.0])) / 0.0
keys = np.array([0.0, -0.0, np.nan, np.copysign(np.nan, -1.0)])
print("NaN of 0/0 here has its sign bit set:", bool(np.signbit(computed[0])))
table = pyarrow.table({"sigma": keys, "run": [1, 2, 3, 4]})
groups = table.group_by("sigma").aggregate([("run", "list")]).to_pylist()
others = table.to_pandas().groupby("sigma", dropna=False)["run"].apply(list).tolist()
print("pyarrow:", groups)
print("pandas:", others)
left, right = pyarrow.table({"sigma": [0.0, 1.0], "a": [1, 2]}), pyarrow.table({"sigma": [-0.0, 1.0], "b": [1, 2]})
joined, merged = left.join(right, "sigma", join_type="inner").num_rows, len(left.to_pandas().merge(right.to_pandas(), on="sigma"))
print("rows of a join: pyarrow", joined, "pandas", merged, "distinct values:", pyarrow.compute.unique(table["sigma"]).to_pylist())
added = len(pyarrow.compute.unique(pyarrow.compute.add(table["sigma"], 0.0).slice(0, 2)))
raise SystemExit(len(groups) != 4 or others != [[1, 2], [3, 4]] or (joined, merged) != (1, 2) or added != 1)
EOF
