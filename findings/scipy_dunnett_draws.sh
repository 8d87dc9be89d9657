#!/usr/bin/env bash
# SciPy's comparison with a baseline has another p value in each call
#
# Version: SciPy 1.17.1, numpy 2.4.6
# Belief: The p value of a parametric test such as `dunnett` is a function of the data, or its documented random integration is exact to some
#   digits.
# Seen: For two variants against a baseline, six runs each, twenty calls give p values from 0.0003 to 0.0005 for one of them, and far smaller ones
#   differ by a factor of a thousand. The distribution of the largest of several t values is integrated with random points, from a fresh generator
#   in each call; `rng=1` makes the calls equal, and two seeds are as far from each other. `tukey_hsd` of the same data is one number.
# Means: Stars behind a number can change from one run of the same script to the next, as 1e-8 and 1e-11 do. Give `rng`, and say no more digits than
#   calls agree in.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from scipy import stats

draw = np.random.default_rng(0)
variants, baseline = [draw.normal(mean, 1, 6) for mean in (1.2, 1.0)], draw.normal(0, 1, 6)
spread = {}
for shift in (0, 3):
    moved = [variant + shift for variant in variants]
    p = np.array([stats.dunnett(*moved, control=baseline).pvalue for _ in range(20)])
    spread[shift] = p.max(0) / p.min(0)
    print(f"twenty calls, variants moved by {shift}: p from {p.min(0)} to {p.max(0)}")
seeded = [stats.dunnett(*variants, control=baseline, rng=1).pvalue.tolist() for _ in range(2)]
by_seed = np.array([stats.dunnett(*variants, control=baseline, rng=seed).pvalue for seed in range(20)])
tukey = {tuple(stats.tukey_hsd(*variants, baseline).pvalue.ravel()) for _ in range(3)}
print(f"with rng=1 equal: {seeded[0] == seeded[1]}; twenty seeds: from {by_seed.min(0)} to {by_seed.max(0)}; tukey_hsd in three calls: {len(tukey)} result")
raise SystemExit(not (seeded[0] == seeded[1] and len(tukey) == 1 and spread[0].max() > 1.1 and spread[3].min() > 3 and (by_seed.max(0) / by_seed.min(0)).max() > 1.2))
PROGRAM
