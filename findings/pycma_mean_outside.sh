#!/usr/bin/env bash
# With bounds the mean lies outside of them
#
# Version: cma 4.5.0, numpy 2.4.6
# Belief: es.mean is a point of the search space, so inside the box that `bounds` gives, as every candidate is.
# Seen: es.mean is in the coordinates before the bounds' transformation: 1.2 for a box of [-1, 1]. result.xfavorite is the
#   same point inside.
# Means: A run that saves or scores es.mean as its centre saves parameters that no candidate ever had, and evaluates a peer
#   worse than it is.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cma==4.5.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import cma
import numpy as np

es = cma.CMAEvolutionStrategy([0.9] * 4, 0.5, {"seed": 1, "bounds": [-1, 1], "verbose": -9})
mean = candidates = favourite = 0.0
for _ in range(30):
    members = es.ask()
    es.tell(members, [-sum(member) for member in members])
    candidates = max(candidates, np.abs(members).max())
    mean, favourite = max(mean, np.abs(es.mean).max()), max(favourite, np.abs(es.result.xfavorite).max())
print(f"largest coordinate: candidates {candidates:.4f}, es.mean {mean:.4f}, result.xfavorite {favourite:.4f}")
raise SystemExit(not (candidates <= 1 and favourite <= 1 < mean))
EOF
