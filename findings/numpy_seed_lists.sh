#!/usr/bin/env bash
# A list of seeds with zeros at its end is the shorter list
#
# Version: numpy 2.4.6
# Belief: default_rng([seed, generation]) gives each pair of numbers a stream of its own.
# Seen: [7, 0] is 7; 2**32 is [0, 1]; the first child that SeedSequence(7) spawns is [7, 0, 0, 0, 0].
# Means: Generation 0, or member 0, of a list of seeds draws what the seed alone draws, and seeds above 2**32 meet other
#   lists. Give all lists the same length, and each number a place of 32 bits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
from numpy.random import SeedSequence, default_rng


def draws(seed):
    return default_rng(seed).integers(0, 2**60, 4).tolist()


pairs = {
    "[7, 0] and 7": (draws([7, 0]), draws(7)),
    "[0, 1] and 2**32": (draws([0, 1]), draws(2**32)),
    "[7, 0, 0, 0, 0] and the first child of 7": (draws([7, 0, 0, 0, 0]), draws(SeedSequence(7).spawn(1)[0])),
}
for what, (one, other) in pairs.items():
    print(f"{what}: {'the same stream' if one == other else 'other streams'}")
raise SystemExit(not all(one == other for one, other in pairs.values()) or draws([7, 1]) == draws(7))
EOF
