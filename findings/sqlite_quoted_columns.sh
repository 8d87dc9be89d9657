#!/usr/bin/env bash
# A query over columns that do not exist runs in SQLite, and may give the right result
#
# Version: SQLite 3 as of Python 3.11, duckdb 2.0.1
# Belief: A query that names a column which is not there fails, so running it shows whether an answer fits the schema.
# Seen: In double quotes an unknown name is a text: SELECT count("nmae") gives the right count, WHERE "ctiy" = 'Rome' is
#   never true, and WHERE "ctiy" <> 'Rome' always. A column that is neither grouped nor aggregated is taken from any row.
#   DuckDB refuses all four.
# Means: A text-to-SQL reward by execution pays for invented columns where the result happens to agree, and empty results
#   agree often. Run with the double-quoted-string option off, or in a strict database.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1
"$folder/venv/bin/python" -W ignore - <<'EOF'
import sqlite3

import duckdb

ROWS = "VALUES ('Ann', 'Rome', 3), ('Bob', 'Oslo', 5), ('Cat', 'Rome', 4)"
QUERIES = {
    """SELECT count("nmae") FROM people""": [(3,)],
    """SELECT count(*) FROM people WHERE "ctiy" = 'Rome'""": [(0,)],
    """SELECT count(*) FROM people WHERE "ctiy" <> 'Rome'""": [(3,)],
    """SELECT city, name, count(*) FROM people GROUP BY city ORDER BY city""": [("Oslo", "Bob", 1), ("Rome", "Ann", 2)],
}
lite, duck = sqlite3.connect(":memory:"), duckdb.connect()
for database in (lite, duck):
    database.execute("CREATE TABLE people (name TEXT, city TEXT, age INTEGER)")
    database.execute(f"INSERT INTO people {ROWS}")
seen, refused = {}, []
for query in QUERIES:
    seen[query] = lite.execute(query).fetchall()
    try:
        duck.execute(query)
    except duckdb.Error as error:
        refused.append(type(error).__name__)
    print(f"{query}: {seen[query]}")
print(f"DuckDB: {refused}")
raise SystemExit(not (seen == QUERIES and refused == ["BinderException"] * 4))
EOF
