#!/usr/bin/env bash
# A sum within groups has other digits than the sum of the column: 4 % off in polars' float32, infinite in pandas' float16
#
# Version: polars 2.1.0, pandas 3.1.1, pyarrow 26.0.1, numpy 2.4.6
# Belief: With one group the grouped sum is the sum of the column.
# Seen: Ten million rewards of 0.1 in float32 sum to 1,000,000.06 in polars' `select`, and to 956,550 in `group_by`, where the mean of
#   the same group is right. In pandas 100,000 float16 ones sum to 100,000 in the column, and to infinity in a group. polars'
#   `sum_horizontal` of int8 100 and 100 is -56, where its `sum` is 200.
# Means: Returns that are added up per run or per member lose digits with their number, and one way of writing it is right. Cast to
#   float64 and int64 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import pandas
import polars

rewards = np.full(10_000_000, 0.1, np.float32)
frame = polars.DataFrame({"run": np.zeros(len(rewards), np.int8), "reward": rewards})
column = float(frame["reward"].sum())
group = frame.group_by("run").agg(polars.col("reward").sum().alias("sum"), polars.col("reward").mean().alias("mean")).to_dicts()[0]
wide = frame.group_by("run").agg(polars.col("reward").cast(polars.Float64).sum())["reward"][0]
print("polars float32: column", column, "group", group["sum"], "mean of the group", group["mean"], "as float64", wide)
half = pandas.Series(np.ones(100_000, np.float16))
of_column, of_group = float(half.sum()), float(half.groupby(np.zeros(100_000)).sum().iloc[0])
print("pandas float16: column", of_column, "group", of_group)
small = polars.DataFrame({"a": polars.Series([100], dtype=polars.Int8), "b": polars.Series([100], dtype=polars.Int8)})
across, down = small.select(polars.sum_horizontal("a", "b")).item(), polars.Series([100, 100], dtype=polars.Int8).sum()
print("polars int8: across", across, "down", down)
wrong = abs(column - 1e6) > 1 or abs(group["sum"] - 1e6) < 20_000 or abs(wide - 1e6) > 1 or (across, down) != (-56, 200)
raise SystemExit(wrong or abs(group["mean"] - 0.1) > 1e-6 or (of_column, of_group) != (100_000.0, float("inf")))
EOF
