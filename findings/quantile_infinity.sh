#!/usr/bin/env bash
# Quantiles of losses with an infinity are NaN or not by their number, and the largest one may be NaN
#
# Version: numpy 2.4.6, pandas 3.1.1, torch 2.14.1
# Belief: The median of 1, 2 and infinity is 2, and the quantile at 1 is the largest value.
# Seen: `np.quantile([1, 2, inf], 0.5)` is NaN where `np.median` is 2, and pandas' `quantile` and `describe` likewise where its `median`
#   is 2; `torch.quantile` gives 2. The quantile at 1.0 is NaN in all three, of three values and of five; numpy's at the integer 1
#   is infinite. Three of nine losses infinite: all quantiles from 0.7 on are NaN. `method="lower"` is right.
# Means: One diverged run of three takes a table its median, and a selection by a quantile of losses compares with NaN, which
#   selects nobody. Take `method="lower"` or "higher" (`interpolation` in torch and pandas), or the median by its own name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 pandas==3.1.1 torch==2.14.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import pandas
import torch

inf = float("inf")
three, five = [1.0, 2.0, inf], [1.0, 2.0, 3.0, 4.0, inf]
nine = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, inf, inf, inf]
quantiles = {
    "numpy": lambda values, share: float(np.quantile(values, share)),
    "pandas": lambda values, share: float(pandas.Series(values).quantile(share)),
    "torch": lambda values, share: float(torch.quantile(torch.tensor(values), share)),
}
seen = {name: [f(three, 0.5), f(three, 1.0), f(five, 1.0), f(nine, 0.7), f(nine, 0.9)] for name, f in quantiles.items()}
for name, row in seen.items():
    print(name, "of three at 0.5 and 1:", row[:2], "of five at 1:", row[2], "of nine at 0.7 and 0.9:", row[3:])
print("medians by name:", np.median(three), pandas.Series(three).median(), "describe:", pandas.Series(three).describe()["50%"])
print("numpy at the integer 1 and at 1.0:", np.quantile(five, 1), np.quantile(five, 1.0))
lower = [float(np.quantile(values, share, method="lower")) for values, share in ((three, 0.5), (five, 1.0), (nine, 0.9))]
print("numpy's method lower:", lower)
missing = {name: np.isnan(row).tolist() for name, row in seen.items()}
wrong = missing["numpy"] != [True] * 5 or missing["pandas"] != [True] * 5
raise SystemExit(wrong or missing["torch"] != [False, True, True, True, True] or np.median(three) != 2 or lower != [2.0, inf, inf])
EOF
