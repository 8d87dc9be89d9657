#!/usr/bin/env bash
# A metric called `wall_time` is a date or a number in `pandas.read_json`, by its values, and most numbers change their bits
#
# Version: pandas 3.1.1, numpy 2.4.6
# Belief: A log of numbers that `json.dumps` wrote comes back with these numbers.
# Seen: Columns that end with `_time` or `_at`, begin with `timestamp`, or are `date` or `modified` become dates if all values are above
#   31,536,000: `evaluation_time` of 5e7 ns is "1971-08-02", and a number again where one value is 60. 87 % of 10,000 normal numbers
#   have other bits, up to 1e-15, with `lines=True` too. `precise_float=True` and `convert_dates=False` are right.
# Means: Times of a slow run and of a fast one have two types, and a record that is read and compared to the last digit is another one.
#   The loss of a run that was read back does not equal the loss that was written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pandas==3.1.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import io
import json

import numpy as np
import pandas


def read(rows, **options):
    return pandas.read_json(io.StringIO(json.dumps(rows)), **options)


numbers = np.random.default_rng(0).normal(size=10_000)
default = (read({"loss": numbers.tolist()})["loss"].to_numpy() != numbers).mean()
precise = (read({"loss": numbers.tolist()}, precise_float=True)["loss"].to_numpy() != numbers).mean()
print("numbers with other bits:", default, "with precise_float:", precise)
types = {}
for name in ("evaluation_time", "wall_time", "timestamp_first", "modified", "loss"):
    types[name] = [str(read([{name: value} for value in values])[name].dtype)[:8] for values in ([5e7, 6e7], [5e7, 60.0])]
    print(name, "of 5e7 and 6e7, of 5e7 and 60:", types[name])
off = str(read([{"wall_time": value} for value in (5e7, 6e7)], convert_dates=False)["wall_time"].dtype)
print("with convert_dates=False:", off)
dates = all(types[name] == ["datetime", "int64"] for name in types if name != "loss")
raise SystemExit(not dates or types["loss"] != ["int64"] * 2 or default < 0.5 or precise or off != "int64")
EOF
