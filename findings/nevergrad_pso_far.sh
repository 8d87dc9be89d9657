#!/usr/bin/env bash
# nevergrad's particle swarm asks for points at 1e16
#
# Version: nevergrad 1.0.12, numpy 2.4.6
# Belief: Without bounds an optimizer that starts around 0 with sigma 1 asks for points of that size, as CMA and DE of the
#   package do.
# Seen: PSO moves its particles in (0, 1) and maps them to the line by a tangent, clipped just inside the ends. On a sphere
#   with its optimum at 3, a fifth of 2,000 candidates have a coordinate above 1,000, and the greatest is 1.6e16. DE and CMA
#   stay below 10.
# Means: Weights of 1e16 give NaN or infinity, so a comparison with PSO over a network measures what its fitness does with
#   those. Bound the parameters, and say so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet nevergrad==1.0.12 cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import nevergrad
import numpy as np

greatest, far = {}, {}
for name in ("PSO", "DE", "CMA"):
    parameter = nevergrad.p.Array(shape=(10,))
    parameter.random_state.seed(1)
    optimizer = nevergrad.optimizers.registry[name](parameter, budget=2000)
    sizes = []
    for _ in range(2000):
        candidate = optimizer.ask()
        sizes.append(np.abs(candidate.value).max())
        optimizer.tell(candidate, float(((candidate.value - 3) ** 2).sum()))
    greatest[name], far[name] = max(sizes), int((np.array(sizes) > 1000).sum())
    print(f"{name}: greatest coordinate {greatest[name]:.3g}, candidates above 1,000: {far[name]} of 2,000")
raise SystemExit(not (greatest["PSO"] > 1e15 and far["PSO"] > 200 and greatest["DE"] < 100 and greatest["CMA"] < 100))
EOF
