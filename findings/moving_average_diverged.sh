#!/usr/bin/env bash
# One diverged generation spoils all later moving averages in three libraries of six
#
# Version: pandas 3.1.1, polars 2.1.0, bottleneck 1.6.0, scipy 1.17.1, duckdb 2.0.1, numpy 2.4.6; sqlite of Python 3.11
# Belief: A moving average over five generations has forgotten a generation after five more.
# Seen: Losses of 1 with one of 1e20: fifteen generations later the average over five is 0 in bottleneck's `move_mean` and
#   SciPy's `uniform_filter1d`, and 0.2 in SQLite; 1 in pandas, polars, DuckDB and `np.convolve`. After an infinity bottleneck
#   and SciPy are NaN for ever, and SQLite has NULL. pandas takes an infinity for missing: `rolling(5).max()` is NaN in its
#   windows, and `ewm().mean()` is 1 at once, as if it had not been.
# Means: A curve, or a stop at a plateau, that is smoothed so shows a perfect loss of 0 for the rest of a run in which one
#   member diverged. Convolve, or take a median.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pandas==3.1.1 polars==2.1.0 bottleneck==1.6.0 scipy==1.17.1 duckdb==2.0.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import math
import sqlite3

import bottleneck
import duckdb
import numpy as np
import pandas as pd
import polars as pl
from scipy.ndimage import uniform_filter1d


def later(bad):
    loss = np.ones(30)
    loss[5] = bad
    frame = pd.DataFrame({"i": range(30), "loss": loss})
    database = sqlite3.connect(":memory:")
    database.execute("create table frame (i, loss)")
    database.executemany("insert into frame values (?, ?)", [(i, float(value)) for i, value in enumerate(loss)])
    query = "select avg(loss) over (order by i rows 4 preceding) from frame order by i"
    return {
        "pandas": frame.loss.rolling(5).mean()[20],
        "polars": pl.Series(loss).rolling_mean(5)[20],
        "duckdb": duckdb.sql(query).fetchall()[20][0],
        "convolve": np.convolve(loss, np.ones(5) / 5, "valid")[16],
        "bottleneck": bottleneck.move_mean(loss, 5)[20],
        "scipy": uniform_filter1d(loss, 5)[20],
        "sqlite": database.execute(query).fetchall()[20][0],
    }


found = {bad: later(bad) for bad in (1e20, math.inf)}
for bad, values in found.items():
    print("fifteen generations after", bad, {name: value if value is None else float(value) for name, value in values.items()})
series = pd.Series(np.where(np.arange(30) == 5, math.inf, 1.0))
hidden = float(series.ewm(span=5).mean()[6]), float(series.rolling(5).max()[7])
print("pandas, one and two generations after an infinity: ewm, rolling maximum", *hidden)
large, infinite = (list(found[bad].values()) for bad in (1e20, math.inf))
raise SystemExit(
    not np.allclose(large, [1.0] * 4 + [0.0, 0.0, 0.2])
    or not np.allclose(infinite[:4], 1.0)
    or not (np.isnan(infinite[4]) and np.isnan(infinite[5]) and infinite[6] is None)
    or hidden[0] != 1
    or not np.isnan(hidden[1])
)
EOF
