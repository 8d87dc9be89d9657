#!/usr/bin/env bash
# Whether a filter of a Parquet file finds a diverged run depends on the runs beside it
#
# Version: pyarrow 26.0.1
# Belief: `filters` of `read_table` give the rows that the same filter of the table gives.
# Seen: A group of rows is left out by its least and greatest number, and a NaN is in neither. `loss != 0.5` and `not (loss < 1)`
#   find a NaN beside larger losses, and not one beside 0.5; of three NaN they give two. `Table.filter` gives all three.
# Means: A count of runs that diverged or missed a threshold depends on how rows were grouped, so on the order in which they
#   ended. Write NaN as null, or filter in memory.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyarrow==26.0.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

nan = float("nan")
table = pa.table({"loss": [0.5, nan, 2.0, 3.0, nan, nan]})
pq.write_table(table, "runs.parquet", row_group_size=2)
loss, seen = pc.field("loss"), {}
for name, condition in (("loss != 0.5", loss != 0.5), ("not (loss < 1)", ~(loss < 1))):
    both = pq.read_table("runs.parquet", filters=condition), table.filter(condition)
    seen[name] = tuple(int(pc.sum(pc.is_nan(one["loss"])).as_py()) for one in both)
print("NaN of three that are found in the file and in memory:", seen)
raise SystemExit(seen != {"loss != 0.5": (2, 3), "not (loss < 1)": (2, 3)})
EOF
