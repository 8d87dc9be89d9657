#!/usr/bin/env bash
# A diverged run is the best of a SQL table, or missing, depending on what read it
#
# Version: SQLite 3 as of Python 3.11, duckdb 2.0.1, pandas 3.1.1, numpy 2.4.6
# Belief: A NaN that is stored comes back as NaN and is handled alike by one query over the same rows.
# Seen: SQLite stores NaN as NULL: it comes back as None, avg and max leave it out, and `ORDER BY loss LIMIT 1` names it the
#   best of a minimum. DuckDB takes it for the greatest number in a table of its own, and for missing where the same rows are a
#   pandas frame: max is NaN or 3.
# Means: A leaderboard in SQLite ranks a diverged run first, with an empty loss; and a study's summary changes as it is read
#   from a frame or a table. Store a status, or filter explicitly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==2.0.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import math
import sqlite3

import duckdb
import pandas as pd

rows = [(0, 1.0), (1, math.nan), (2, 3.0)]
lite = sqlite3.connect(":memory:")
lite.execute("create table runs (seed integer, loss real)")
lite.executemany("insert into runs values (?, ?)", rows)
stored = [value for (value,) in lite.execute("select loss from runs order by seed")]
best = lite.execute("select seed from runs order by loss limit 1").fetchone()[0]
mean = lite.execute("select avg(loss) from runs").fetchone()[0]
print(f"SQLite {sqlite3.sqlite_version}: losses {stored}, mean {mean}, lowest loss: seed {best}")
duck = duckdb.connect()
duck.execute("create table runs (seed integer, loss double)")
duck.executemany("insert into runs values (?, ?)", rows)
frame = pd.DataFrame(rows, columns=["seed", "loss"])
query = "select max(loss), avg(loss), arg_max(seed, loss) from "
table, pandas = duck.execute(query + "runs").fetchone(), duck.execute(query + "frame").fetchone()
print(f"DuckDB: greatest, mean and seed of the greatest: {table} from its table, {pandas} from the pandas frame")
table_holds = math.isnan(table[0]) and math.isnan(table[1]) and table[2] == 1
raise SystemExit(not (stored == [1.0, None, 3.0] and best == 1 and mean == 2.0 and table_holds and pandas == (3.0, 2.0, 2)))
EOF
