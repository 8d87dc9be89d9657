#!/usr/bin/env bash
# A strategy that loses all its money has a Sharpe ratio of 0 in backtesting.py, better than any that loses a third
#
# Version: backtesting 0.6.6, numpy 2.4.6, pandas 2.3.3
# Belief: The worst there is, an equity of 0, has the worst Sharpe, Sortino and Calmar ratios, or none.
# Seen: A falling price is bought and kept with a margin of 1, 0.5 and 0.2. The first two return -34 % and -67 %, and have Sharpe ratios of -2.5 and
#   -3.8, Sortino ratios of -2.4 and -2.0. The third returns -100 % and all three ratios are 0. `optimize(maximize="Sharpe Ratio")` over the size
#   takes the ruin.
# Means: A search in a falling market ends at ruin. Maximise the final equity, or count an equity of 0 as the worst.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet backtesting==0.6.6 numpy==2.4.6 pandas==2.3.3 bokeh==3.9.2
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import pandas as pd
from backtesting import Backtest, Strategy

close = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(-0.001, 0.01, 300)))
begin = np.r_[close[0], close[:-1]]
prices = {"Open": begin, "High": np.maximum(close, begin) * 1.002, "Low": np.minimum(close, begin) * 0.998, "Close": close}
prices = pd.DataFrame(prices | {"Volume": 1}, index=pd.date_range("2020-01-01", periods=300, freq="B"))


class Hold(Strategy):
    part = 0.9

    def init(self):
        pass

    def next(self):
        if not self.position:
            self.buy(size=self.part)


names = ["Return [%]", "Sharpe Ratio", "Sortino Ratio", "Calmar Ratio", "Equity Final [$]"]
seen = {}
for margin in (1, 0.5, 0.2):
    found = Backtest(prices, Hold, margin=margin, finalize_trades=True).run(part=0.9999)
    seen[margin] = [round(float(found[name]), 3) for name in names]
    print(f"margin {margin}:", dict(zip(names, seen[margin])))
search = Backtest(prices, Hold, margin=0.2, finalize_trades=True)
best = search.optimize(part=[0.05, 0.1, 0.2, 0.9], maximize="Sharpe Ratio")
print("best part by Sharpe ratio:", best._strategy.part, "return", best["Return [%]"])
holds = all(seen[margin][1] < -2 and seen[margin][0] < -30 for margin in (1, 0.5)) and seen[0.2] == [-100, 0, 0, 0, 0]
raise SystemExit(not (holds and best._strategy.part == 0.9 and best["Return [%]"] == -100))
PROGRAM
