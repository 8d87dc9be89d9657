#!/usr/bin/env bash
# With pycma's noise handler sigma grows without end on a noisy loss, and members are several times worse
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: With `noise_handler=NoiseHandler(n)` a noisy search converges where one without it ends early, for some more evaluations.
# Seen: On a sphere of 8 dimensions with constant noise of 0.1, 1 and 10, sigma is 5 to 50 after 300 generations, where it began with 0.5 and is below 0.1
#   without the handler. By default it evaluates no member more often, and each generation with reversed ranks multiplies sigma, without a limit. The
#   covariance shrinks against it, so that members stay some 0.1 to 2 around the mean and never come nearer: they have 7 to 10 times the loss of those without it,
#   the mean one to five times, for a quarter more evaluations. Without noise both converge.
# Means: On a noisy fitness the option alone makes a run worse, and no tolerance ends it. On a plateau of noise members are 20,000 apart after 100 generations and 1e13 after 300.
#   Average several evaluations of each member yourself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import cma
import numpy as np

ENDLESS = dict(verbose=-9, maxiter=300, tolfun=0, tolx=0, tolstagnation=9999, tolfunhist=0, tolflatfitness=999)
seen, holds = {}, True
for noise in (0, 0.1, 1, 10):
    for handled in (False, True):
        ends = []
        for seed in (1, 2, 3):
            draws = np.random.default_rng(seed)
            handler = cma.NoiseHandler(8) if handled else None
            _, search = cma.fmin2(lambda x: float(((x - 1) ** 2).sum()) + noise * draws.normal(), 8 * [0], 0.5, {**ENDLESS, "seed": seed}, noise_handler=handler)
            members = np.array(search.ask(100))
            loss = ((members - 1) ** 2).sum(1).mean()
            ends.append((((search.mean - 1) ** 2).sum(), search.sigma, loss, members.std(0).mean(), search.countevals))
        mean, sigma, member, spread, counts = np.median(ends, 0)
        seen[noise, handled] = mean, sigma, member
        print(f"noise {noise}, {'handler' if handled else 'none   '}: loss of the mean {mean:.2g}, of a member {member:.3g}; sigma {sigma:.2g}, members' deviation {spread:.2g}; {counts:.0f} evaluations")
    if noise:
        plain, treated = seen[noise, False], seen[noise, True]
        holds &= treated[1] > 2 and treated[1] > 50 * plain[1] and treated[2] > 3 * plain[2] and treated[0] > plain[0]
    else:
        holds &= max(seen[0, False][1], seen[0, True][1]) < 1e-6
raise SystemExit(not holds)
PROGRAM
