#!/usr/bin/env bash
# The order of a flattened observation depends on how its Dict space was written
#
# Version: gymnasium 1.4.0
# Belief: A Dict space has one order of its parts; the same parts flatten to the same vector.
# Seen: Parts of a plain dict are sorted by name; those of keyword arguments, of a list of pairs and of an OrderedDict stay
#   as written. All four spaces compare as equal, and the vectors of one observation differ.
# Means: A policy that was trained on an environment reads its inputs in other places after the space is written in another
#   way, with the same shape and an equal space. Compare the order of the keys at a resume.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
from collections import OrderedDict

import numpy as np
from gymnasium.spaces import Box, Dict, flatten

part = Box(0, 1, (1,))
seen = {"speed": np.array([0.2], np.float32), "angle": np.array([0.1], np.float32)}
spaces = {
    "plain dict": Dict({"speed": part, "angle": part}),
    "keywords": Dict(speed=part, angle=part),
    "pairs": Dict([("speed", part), ("angle", part)]),
    "OrderedDict": Dict(OrderedDict(speed=part, angle=part)),
}
vectors = {name: [round(float(value), 1) for value in flatten(space, seen)] for name, space in spaces.items()}
for name, vector in vectors.items():
    print(f"{name}: {vector}, equal to the plain dict's {spaces[name] == spaces['plain dict']}")
raise SystemExit(list(vectors.values()) != [[0.1, 0.2], [0.2, 0.1], [0.2, 0.1], [0.2, 0.1]])
EOF
