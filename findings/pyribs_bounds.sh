#!/usr/bin/env bash
# Two emitters of pyribs treat one box in two ways
#
# Version: ribs 0.12.0, numpy 2.4.6
# Belief: `bounds` of an emitter keeps solutions inside in the same way, whichever emitter it is.
# Seen: With sigma five times the half width of the box, GaussianEmitter clips: 84 % of its numbers lie on the border.
#   EvolutionStrategyEmitter draws again until all are inside: none does.
# Means: Emitters that are mixed or compared in one scheduler search other distributions: corners of the box, or its inside.
#   With many dimensions drawing again also costs most of the time. Choose sigma small against the box.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ribs==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from ribs.archives import GridArchive
from ribs.emitters import EvolutionStrategyEmitter, GaussianEmitter

archive = GridArchive(solution_dim=4, dims=[10, 10], ranges=[(-1, 1)] * 2)
given = {"x0": np.zeros(4), "bounds": [(-1, 1)] * 4, "batch_size": 1000, "seed": 1}
shares = {}
for emitter in (GaussianEmitter(archive, sigma=5.0, **given), EvolutionStrategyEmitter(archive, sigma0=5.0, **given)):
    solutions = emitter.ask()
    shares[type(emitter).__name__] = float((np.abs(solutions) == 1).mean())
    print(f"{type(emitter).__name__}: share of numbers on the border {shares[type(emitter).__name__]:.3f}")
raise SystemExit(not (shares["GaussianEmitter"] > 0.8 and shares["EvolutionStrategyEmitter"] == 0))
EOF
