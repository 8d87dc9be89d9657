#!/usr/bin/env bash
# nevergrad recommends a point that was evaluated twice before every other one that is better by less than 70
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: With `parametrization.function.deterministic = False` the recommendation is a point whose mean loss is small, and other units of the
#   loss change nothing.
# Seen: The pessimistic bound of a point that was evaluated once takes a variance of 1e6, which is 70.7 above its loss, and that of a point that was
#   told twice takes its own. Where the first candidate is told twice and 98 others once, OnePlusOne recommends the first one with a loss of 18 beside
#   points near 0, and searches around it for the complete budget, as it always moves from the pessimistic best. The same losses times
#   1,000 end at 0.2 or less.
# Means: Evaluating an incumbent again, as one does under noise, stops the search where losses are smaller than 70. Evaluate every candidate
#   equally often and tell the mean, or scale losses.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import nevergrad
import numpy as np


def true_loss(point):
    return float(((point - 3) ** 2).sum())


def search(seed, scale, again):
    parameters = nevergrad.p.Array(shape=(2,))
    parameters.random_state.seed(seed)
    parameters.function.deterministic = False
    optimizer = nevergrad.optimizers.registry["OnePlusOne"](parametrization=parameters, budget=100)
    noise = np.random.default_rng(seed)
    best, calls = np.inf, 0
    while calls < 100:
        candidate = optimizer.ask()
        for _ in range(2 if again and not calls else 1):
            optimizer.tell(candidate, scale * (true_loss(candidate.value) + 0.1 * noise.normal()))
            calls += 1
        best = min(best, true_loss(candidate.value))
    return true_loss(optimizer.provide_recommendation().value), best


seen = {}
for scale, again in ((1.0, True), (1000.0, True), (1.0, False)):
    seen[scale, again] = [search(seed, scale, again) for seed in range(5)]
    print(f"losses times {scale:g}, first point told {'twice' if again else 'once'}: recommended and best true loss "
          + ", ".join(f"{loss:.3f} ({best:.3f})" for loss, best in seen[scale, again]))
stuck = all(loss == 18 and best < 6 for loss, best in seen[1.0, True])
free = all(loss < 1 for key in ((1000.0, True), (1.0, False)) for loss, _ in seen[key])
raise SystemExit(not (stuck and free))
PROGRAM
