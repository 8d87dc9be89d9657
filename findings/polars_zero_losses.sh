#!/usr/bin/env bash
# A loss that is written as 0 in the first hundred rows is 0 in all later ones, in polars, and after 20,480 rows in DuckDB
#
# Version: polars 2.1.0, duckdb 2.0.1, pyarrow 26.0.1, pandas 3.1.1
# Belief: A column of 0 and later 0.5 is a column of floats, or is refused.
# Seen: `polars.DataFrame`, `from_dicts` and `read_json` of 200 rows with a loss of 0 (an integer, as in most JSON) and 50 with 0.5 take the
#   column for integers and make 0 of each 0.5. `read_ndjson` refuses. DuckDB's `read_json` is right there, and makes 0 of 0.5 after
#   30,000 rows. pyarrow and pandas have 0.5. With 50 rows of 0 all are right.
# Means: Penalties, success rates and counts that begin as 0 stay 0 in the table of a long run, which reads as a run that never
#   learnt. Give a schema, or `infer_schema_length=None`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 duckdb==2.0.1 pyarrow==26.0.1 pandas==3.1.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import io
import json

import duckdb
import pandas
import polars
import pyarrow


def last(before):
    rows = [{"loss": 0}] * before + [{"loss": 0.5}] * 50
    with open("log.jsonl", "w") as file:
        file.write("\n".join(map(json.dumps, rows)))
    return {
        "polars DataFrame": polars.DataFrame(rows)["loss"][-1],
        "polars from_dicts": polars.from_dicts(rows)["loss"][-1],
        "polars read_json": polars.read_json(io.BytesIO(json.dumps(rows).encode()))["loss"][-1],
        "duckdb": duckdb.sql("select loss from read_json('log.jsonl')").fetchall()[-1][0],
        "pyarrow": pyarrow.Table.from_pylist(rows)["loss"][-1].as_py(),
        "pandas": float(pandas.read_json("log.jsonl", lines=True)["loss"].iloc[-1]),
        "polars, all rows": polars.DataFrame(rows, infer_schema_length=None)["loss"][-1],
    }


seen = {before: last(before) for before in (50, 200, 30_000)}
for before, row in seen.items():
    print("a loss of 0.5 behind", before, "rows of 0:", row)
right = list(seen[50].values()) == [0.5] * 7
early = list(seen[200].values()) == [0] * 3 + [0.5] * 4
raise SystemExit(not right or not early or list(seen[30_000].values()) != [0] * 4 + [0.5] * 3)
EOF
