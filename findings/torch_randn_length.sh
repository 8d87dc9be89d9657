#!/usr/bin/env bash
# The first numbers of torch.randn depend on how many are drawn
#
# Version: torch 2.14.1; AMD Zen 4, Intel Xeon with AMX
# Belief: With one seed a longer draw begins with the shorter one, as torch.rand's does and numpy's.
# Seen: randn(15) and randn(16) share no number. randn(17) shares one with randn(16), randn(24) the first 8, randn(31) the
#   first 15, randn(32) all 16: below 16 numbers another algorithm draws, and the last 16 of a longer draw are drawn again
#   where 16 does not divide the length. torch.rand agrees at every length.
# Means: Noise of a parameter changes with its layer's width beyond the added numbers, and noise drawn in pieces is not the
#   noise of one draw. A member that is made again tensor by tensor from its seed needs the same cuts everywhere.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch


def draw(function, count):
    return function(count, generator=torch.Generator().manual_seed(5))


shared = {}
for count in (15, 17, 24, 31, 32, 48):
    least = min(count, 16)
    shared[count] = int((draw(torch.randn, count)[:least] == draw(torch.randn, 16)[:least]).sum())
    print(f"randn({count}) and randn(16): {shared[count]} of the first {least} numbers agree")
uniform = all(torch.equal(draw(torch.rand, count), draw(torch.rand, 48)[:count]) for count in (15, 16, 17, 31))
print(f"rand: a shorter draw begins a longer one: {uniform}")
raise SystemExit(shared != {15: 0, 17: 1, 24: 8, 31: 15, 32: 16, 48: 16} or not uniform)
EOF
