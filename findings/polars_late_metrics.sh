#!/usr/bin/env bash
# A metric that comes first in row 101 of a log is left out by polars, and one that pyarrow's first row lacks by pyarrow
#
# Version: polars 2.1.0, pyarrow 26.0.1, duckdb 2.0.1, pandas 3.1.1
# Belief: A table of rows has all columns that the rows have.
# Seen: Where the last 50 of 250 rows have a `test_loss`, `polars.DataFrame`, `from_dicts`, `read_ndjson` and `scan_ndjson` give a table
#   without that column, and say nothing; with 50 rows before it is there. `pyarrow.Table.from_pylist` has the columns of the first
#   row alone. `pyarrow.json`, DuckDB and pandas have it; `polars.read_json` refuses. `infer_schema_length=None` helps.
# Means: Metrics that are logged every 500 generations, or that begin late, are missing from the table of a long run and present in that of
#   a short one. Give `infer_schema_length=None`, or a schema.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet polars==2.1.0 pyarrow==26.0.1 duckdb==2.0.1 pandas==3.1.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import json

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.json


def table(before):
    rows = [{"step": step, "loss": 1.5} for step in range(before)]
    rows += [{"step": step, "loss": 1.5, "test_loss": 0.5} for step in range(before, before + 50)]
    with open("log.jsonl", "w") as file:
        file.write("\n".join(map(json.dumps, rows)))
    return {
        "polars DataFrame": polars.DataFrame(rows).columns,
        "polars from_dicts": polars.from_dicts(rows).columns,
        "polars read_ndjson": polars.read_ndjson("log.jsonl").columns,
        "polars scan_ndjson": polars.scan_ndjson("log.jsonl").collect().columns,
        "pyarrow from_pylist": pyarrow.Table.from_pylist(rows).column_names,
        "pyarrow json": pyarrow.json.read_json("log.jsonl").column_names,
        "duckdb": duckdb.sql("select * from read_json('log.jsonl')").columns,
        "pandas": list(pandas.read_json("log.jsonl", lines=True)),
        "polars, all rows": polars.read_ndjson("log.jsonl", infer_schema_length=None).columns,
    }


seen = {before: {name: "test_loss" in columns for name, columns in table(before).items()} for before in (50, 200)}
for before, row in seen.items():
    print(before, "rows before the first test_loss: column there?", row)
short = list(seen[50].values()) == [True] * 4 + [False] + [True] * 4
raise SystemExit(not short or list(seen[200].values()) != [False] * 5 + [True] * 4)
EOF
