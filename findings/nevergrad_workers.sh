#!/usr/bin/env bash
# nevergrad's number of workers is a population size
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: num_workers says how many evaluations run at the same time. Candidates that are asked and told one by one, of one seed,
#   give the same run with any number.
# Seen: CMA and DE take num_workers as the least population: one by one, of one seed, 1 and 8 workers give one result and 64
#   another, by a factor of four. DE's population is 30 with 8 workers and 64 with 64.
# Means: A peer that was measured on 64 cores is another algorithm than the one measured on 8, and a comparison by evaluations
#   depends on the machine. Keep num_workers fixed, and run as many evaluations at once as the machine allows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import nevergrad
import numpy as np

scales = np.logspace(0, 3, 20)


def final(name, workers):
    parameter = nevergrad.p.Array(shape=(20,))
    parameter.random_state.seed(1)
    optimizer = nevergrad.optimizers.registry[name](parameter, budget=3000, num_workers=workers)
    for _ in range(3000):
        candidate = optimizer.ask()
        optimizer.tell(candidate, float(((candidate.value - 3) ** 2 * scales).sum()))
    return float(((optimizer.provide_recommendation().value - 3) ** 2 * scales).sum())


holds = True
for name in ("CMA", "DE"):
    losses = [final(name, workers) for workers in (1, 1, 8, 64)]
    print(f"{name}, one by one, seed 1: loss with num_workers 1, 1, 8, 64:", ", ".join(f"{loss:.4g}" for loss in losses))
    holds &= losses[0] == losses[1] == losses[2] and losses[3] != losses[0]
raise SystemExit(not holds)
EOF
