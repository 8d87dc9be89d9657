#!/usr/bin/env bash
# The quantile 0.5 of four runs is 2, 2.5 or 3, beside a median of 2.5 in each library
#
# Version: polars 2.1.0, duckdb 2.0.1, pandas 3.1.1, pyarrow 26.0.1, numpy 2.4.6
# Belief: The quantile 0.5 is the median.
# Seen: Of the losses 1, 2, 3, 4 it is 3 in polars, where `describe()` has 3 as "50%" and `median()` is 2.5, and 2 in DuckDB, where
#   `median` is 2.5. pandas, numpy and pyarrow have 2.5. The quartiles are 2 and 3, 1 and 3, and 1.75 and 3.25.
# Means: Medians and interquartile ranges of three to ten seeds are other numbers by the tool that made the table. Say
#   `interpolation="linear"` in polars, `quantile_cont` in DuckDB.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 duckdb==2.0.1 pandas==3.1.1 pyarrow==26.0.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

runs = [1.0, 2.0, 3.0, 4.0]
series, frame = pl.Series(runs), pd.Series(runs)
described = dict(zip(*pl.DataFrame({"x": runs}).describe().to_dict(as_series=False).values()))["50%"]
table = "from (values (1.0), (2.0), (3.0), (4.0)) t(x)"
levels = (0.25, 0.5, 0.75)
seen = {
    "polars": ([series.quantile(q) for q in levels], series.median()),
    "duckdb": ([float(duckdb.sql(f"select quantile(x, {q}) {table}").fetchall()[0][0]) for q in levels], float(duckdb.sql(f"select median(x) {table}").fetchall()[0][0])),
    "pandas": ([float(frame.quantile(q)) for q in levels], float(frame.median())),
    "numpy": (np.quantile(runs, levels).tolist(), float(np.median(runs))),
    "pyarrow": (pc.quantile(pa.array(runs), list(levels)).to_pylist(), pc.quantile(pa.array(runs), 0.5)[0].as_py()),
}
for name, (quantiles, median) in seen.items():
    print(f"{name}: quantiles {quantiles}, median {median}")
print("polars, 50% of describe():", described)
holds = all(median == 2.5 for _, median in seen.values()) and described == 3
holds &= seen["polars"][0] == [2, 3, 3] and seen["duckdb"][0] == [1, 2, 3]
raise SystemExit(not (holds and all(seen[name][0] == [1.75, 2.5, 3.25] for name in ("pandas", "numpy", "pyarrow"))))
EOF
