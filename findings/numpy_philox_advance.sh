#!/usr/bin/env bash
# `Philox.advance(1)` skips four numbers, and leaves another place after a draw
#
# Version: numpy 2.4.6
# Belief: "Advance the underlying RNG as-if delta draws have occurred": `advance(n)` skips n numbers of 64 bits, as PCG64's does.
# Seen: `advance(1)` of a fresh Philox skips 4 numbers, `advance(4)` 16. After one draw `advance(1)` continues with number 8, so that 7 are
#   skipped: the rest of a block of four is dropped. `PCG64.advance(4)` skips 4.
# Means: Streams that are laid out by "member times numbers of a member" overlap by a quarter under one generator and not under the other.
#   A resume by `advance(count)` is at another place. Count blocks of four numbers, and set counters before any draw.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np

first = np.random.Philox(1).random_raw(64).tolist()
fresh, drawn = {}, {}
for steps in (1, 2, 4):
    generator = np.random.Philox(1)
    generator.advance(steps)
    fresh[steps] = first.index(int(generator.random_raw()))
    generator = np.random.Philox(1)
    generator.random_raw()
    generator.advance(steps)
    drawn[steps] = first.index(int(generator.random_raw()))
print("Philox: place after advance of a fresh generator", fresh, "after one draw", drawn)
other, numbers = np.random.PCG64(1), np.random.PCG64(1).random_raw(64).tolist()
other.advance(4)
place = numbers.index(int(other.random_raw()))
print("PCG64: place after advance(4):", place)
raise SystemExit(fresh != {1: 4, 2: 8, 4: 16} or drawn != {1: 8, 2: 12, 4: 20} or place != 4)
EOF
