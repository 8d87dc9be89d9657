#!/usr/bin/env bash
# A dataset in torch's or numpy's format has float32 numbers, and integers too where one is missing
#
# Version: datasets 5.2.0, torch 2.14.1, numpy 2.4.6
# Belief: `with_format("torch")` or `"numpy"` gives the columns as they are stored, float64 as float64 and int64 as int64.
# Seen: float64 columns are float32: 16,777,217 is 16,777,216, and 1e300 infinite. A column of integers is int64 in a batch without a missing
#   value and float32 with NaN in one with it, so that a number in it is rounded by its neighbours. In numpy's format one row is float64,
#   two rows are float32. The pandas, polars and arrow formats are float64; `with_format("torch", dtype=torch.float64)` is.
# Means: Targets, times and returns far from zero lose digits, and a token or record number above 16 million is another one. Name the type.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import numpy as np
import torch
from datasets import Dataset

table = Dataset.from_dict({"target": [16777217.0, 1e300, 0.1], "record": [16777217, 16777219, None]})
print(table.features)
seen = {}
for kind, options in (("torch", {}), ("torch", {"dtype": torch.float64}), ("numpy", {}), ("numpy", {"dtype": np.float64}), ("pandas", {}), ("arrow", {})):
    rows = table.with_format(kind, **options)
    target, whole, part = rows[:2]["target"], rows[:3]["record"], rows[:2]["record"]
    types = [str(getattr(column, "dtype", None) or column.type).removeprefix("torch.") for column in (target, part, whole)]
    first = [float(column[0]) if kind != "arrow" else float(column[0].as_py()) for column in (target, part, whole)]
    name = kind + (", float64 asked for" if options else "")
    seen[name] = types, first
    print(f"{name}: targets {types[0]}, records {types[1]} and, with a missing one, {types[2]}; first values {first}")
one = table.with_format("numpy")[0]["target"]
print("numpy, one row:", one.dtype, float(one))
rounded = 16777216.0
holds = all(seen[kind][0] == ["float32", "int64", "float32"] and seen[kind][1] == [rounded, rounded + 1, rounded] for kind in ("torch", "numpy"))
exact = all(seen[kind][1] == [rounded + 1] * 3 for kind in ("torch, float64 asked for", "numpy, float64 asked for", "pandas", "arrow"))
lost = np.isinf(table.with_format("numpy")[:]["target"][1]) and float(one) == rounded + 1
raise SystemExit(not (holds and exact and lost))
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
