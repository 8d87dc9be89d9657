#!/usr/bin/env bash
# A remainder in a compiled function is off in its digits, and 0 for large numbers
#
# Version: torch 2.14.1 (inductor on a CPU); it needs a C++ compiler
# Belief: `x % y` of float32 numbers is exact, compiled as in eager.
# Seen: Compiled it is computed from a rounded quotient: of numbers up to 500 `x % 0.1` differs in nearly all from eager, by up to 1e-5, and of numbers
#   up to 5 million `x % 6.2832` by up to 0.25, which also leaves the range. From 1e9 on `x % 3` is 0. `fmod` and integers are right.
# Means: Angles, phases and periodic features of a compiled network are other ones, and a large number is always at phase 0. Reduce numbers before
#   they grow, or use `torch.fmod`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import torch

torch.manual_seed(0)
small = torch.rand(4099) * 1000 - 500
phases, large = small * 1e4, torch.tensor([1e9, 2.0**31, 1e20, -1e20, 3e38] * 8)


def remainders(small, phases, large):
    return small % 0.1, phases % 6.2832, large % 3, torch.fmod(small, 0.1), torch.fmod(large, 3)


eager, compiled = remainders(small, phases, large), torch.compile(remainders)(small, phases, large)
names = "x % 0.1 up to 500", "x % 6.2832 up to 5e6", "x % 3 from 1e9 on", "fmod", "fmod of large ones"
errors = [(a - b).abs() for a, b in zip(eager, compiled)]
for name, error, value in zip(names, errors, compiled):
    print(f"{name}: {float((error > 0).float().mean()):.0%} differ, by up to {error.max():.2g}; compiled from {value.min():.4g} to {value.max():.4g}")
print("of", large[:5].tolist(), "eager", eager[2][:5].tolist(), "compiled", compiled[2][:5].tolist())
holds = (errors[0] > 0).float().mean() > 0.5 and 1e-6 < errors[0].max() < 1e-3 and errors[1].max() > 0.05
raise SystemExit(not (holds and not compiled[2][1:].any() and bool(eager[2][1:].all()) and not errors[3].any() and not errors[4].any()))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py
