#!/usr/bin/env bash
# Returns that are all NaN have a growth of 0 without drawdown in empyrical, and one infinity makes a drawdown smaller or is left out
#
# Version: empyrical-reloaded 0.5.9, quantstats 0.0.86, ffn 1.4.1, numpy 2.4.6, pandas 2.3.3
# Belief: A strategy whose returns are NaN or infinite has no number.
# Seen: For 250 returns of NaN empyrical has a growth of 0 a year and a largest drawdown of 0, the best there is, beside a Sharpe ratio of NaN.
#   With one infinite return the drawdown is 7 % in empyrical and ffn where it is 12 % without, and quantstats takes infinities for missing:
#   a Sharpe ratio of 0.65. A constant gain of 0.1 % a day has a Sharpe ratio of 2e16 in the first two, NaN in ffn; a constant loss -2e16.
# Means: Ranked by drawdown or growth a diverged strategy comes before all that lose; by Sharpe a rounding error decides. Test returns
#   before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet empyrical-reloaded==0.5.9 quantstats==0.0.86 ffn==1.4.1 numpy==2.4.6 pandas==2.3.3
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import empyrical
import ffn
import numpy as np
import pandas as pd
import quantstats

days = pd.date_range("2020-01-01", periods=250, freq="B")
base = pd.Series(np.random.default_rng(0).normal(5e-4, 0.01, 250), index=days)
middle = np.arange(250) == 100
runs = {"sound": base, "NaN": base * np.nan, "infinite": base.mask(middle, np.inf), "gain": base * 0 + 0.001, "loss": base * 0 - 0.001}
measures = {
    "empyrical growth": empyrical.cagr,
    "empyrical drawdown": empyrical.max_drawdown,
    "empyrical Sharpe": empyrical.sharpe_ratio,
    "quantstats drawdown": quantstats.stats.max_drawdown,
    "quantstats Sharpe": quantstats.stats.sharpe,
    "ffn drawdown": lambda run: ffn.calc_max_drawdown((1 + run).cumprod()),
    "ffn Sharpe": lambda run: ffn.calc_sharpe(run, nperiods=252),
}
seen = {}
for name, measure in measures.items():
    for kind, run in runs.items():
        if kind == "NaN" and name.startswith("quantstats"):
            continue  # refused with an error
        seen[name, kind] = float(measure(run.copy()))
    print(name, {kind: f"{seen[name, kind]:.4g}" for kind in runs if (name, kind) in seen})
holds = seen["empyrical growth", "NaN"] == seen["empyrical drawdown", "NaN"] == 0 and np.isnan(seen["empyrical Sharpe", "NaN"])
holds &= all(seen[f"{name} drawdown", "infinite"] > 0.7 * seen[f"{name} drawdown", "sound"] for name in ("empyrical", "ffn"))
holds &= 0.6 < seen["quantstats Sharpe", "infinite"] < 0.7 and np.isnan(seen["ffn Sharpe", "gain"])
holds &= all(seen[f"{name} Sharpe", "loss"] < -1e15 < 1e15 < seen[f"{name} Sharpe", "gain"] for name in ("empyrical", "quantstats"))
raise SystemExit(not holds)
PROGRAM
