#!/usr/bin/env bash
# A pickled CMA of the package cmaes goes on with other draws each time
#
# Version: cmaes 0.13.1, numpy 2.4.6
# Belief: An optimizer with a seed is resumed from its pickle as if the run had not stopped: the generator is part of the
#   state.
# Seen: CMA, SepCMA and CMAwM leave their generator out of the pickle and take one seeded by the system when loaded. The next
#   candidate differs from the one of the run that was saved, and two loads differ from each other. XNES and DXNESIC of the
#   same package keep it.
# Means: A baseline that was stopped and resumed cannot be repeated, whatever its seed; workers that load one pickle search
#   apart. Save `optimizer._rng` yourself and put it back.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet cmaes==0.13.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import pickle

import cmaes
import numpy as np

start = {"mean": np.zeros(3), "sigma": 1.0, "seed": 1}
box = {"bounds": np.array([[-9.0, 9.0]] * 3), "steps": np.zeros(3)}
same = {}
for name in ("CMA", "SepCMA", "CMAwM", "XNES", "DXNESIC"):
    optimizer = getattr(cmaes, name)(**start, **box) if name == "CMAwM" else getattr(cmaes, name)(**start)
    saved = pickle.dumps(optimizer)
    draws = [np.round(np.ravel(one.ask())[:3], 3).tolist() for one in (optimizer, pickle.loads(saved), pickle.loads(saved))]
    same[name] = (draws[0] == draws[1], draws[1] == draws[2])
    print(f"{name}: next candidate of the run {draws[0]}, of its pickle {draws[1]}, again {draws[2]}")
lost, kept = (False, False), (True, True)
raise SystemExit(same != {"CMA": lost, "SepCMA": lost, "CMAwM": lost, "XNES": kept, "DXNESIC": kept})
EOF
