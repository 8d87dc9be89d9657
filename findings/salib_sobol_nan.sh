#!/usr/bin/env bash
# One diverged run gives every hyperparameter a Sobol index of 0, with an interval of 0, in SALib
#
# Version: SALib 1.6.0, SciPy 1.17.1, numpy 2.4.6
# Belief: A NaN or an infinity among the outputs makes the indices NaN, or is refused.
# Seen: With one NaN or one infinity among 2,048 outputs `sobol.analyze` returns 0 for all first-order and total indices and a confidence of 0,
#   without a warning, as it does for an output that is constant. FAST, RBD-FAST, delta and DGSM of the same function have a NaN or an infinity
#   among their indices, PAWN has NaN for a NaN. A diverged run that is told as a loss of 1e6 gives Sobol indices of millions.
# Means: "No hyperparameter matters" may mean that one run diverged. Look at the outputs first; cut the loss at a limit before it is analysed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet SALib==1.6.0 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from SALib.analyze import delta, dgsm, fast, pawn, rbd_fast, sobol
from SALib.sample import fast_sampler, finite_diff, latin
from SALib.sample import sobol as sobol_sample

names = {"num_vars": 3, "names": ["rate", "sigma", "decay"], "bounds": [[0, 1]] * 3}
points = sobol_sample.sample(names, 256, seed=1), latin.sample(names, 512, seed=1), fast_sampler.sample(names, 512, seed=1)
pairs = finite_diff.sample(names, 100, seed=1)


def losses(x, bad):
    y = x[:, 0] + 2 * x[:, 1] + 0.5 * x[:, 2]
    if bad is not None:
        y[3] = bad
    return y


def indices(bad):
    of = {"Sobol": sobol.analyze(names, losses(points[0], bad), seed=1)}
    yield "Sobol", np.r_[of["Sobol"]["S1"], of["Sobol"]["ST"], of["Sobol"]["S1_conf"]]
    yield "FAST", fast.analyze(names, losses(points[2], bad), seed=1, num_resamples=10)["S1"]
    yield "RBD-FAST", rbd_fast.analyze(names, points[1], losses(points[1], bad), seed=1, num_resamples=10)["S1"]
    yield "DGSM", dgsm.analyze(names, pairs, losses(pairs, bad), seed=1, num_resamples=10)["dgsm"]
    yield "PAWN", pawn.analyze(names, points[1], losses(points[1], bad), seed=1)["median"]
    try:
        yield "delta", delta.analyze(names, points[1], losses(points[1], bad), seed=1, num_resamples=10)["S1"]
    except ValueError:
        yield "delta", np.array([np.nan])


holds = True
for bad in (None, np.nan, np.inf, 1e6):
    seen = {name: np.asarray(values, dtype=float) for name, values in indices(bad)}
    print(f"{bad}:", {name: np.round(values, 2).tolist() for name, values in seen.items()})
    if bad is None:
        holds &= np.allclose(seen["Sobol"][:3], [0.19, 0.76, 0.05], atol=0.02)
    elif bad == 1e6:
        holds &= np.abs(seen["Sobol"]).max() > 1e6
    else:
        holds &= (seen["Sobol"] == 0).all() and not any(np.isfinite(seen[name]).all() for name in ("FAST", "RBD-FAST", "DGSM", "delta"))
raise SystemExit(not holds)
PROGRAM
