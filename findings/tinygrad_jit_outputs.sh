#!/usr/bin/env bash
# A fitness that a jitted tinygrad function returned is overwritten by its next call, and sigma stays that of the second
#
# Version: tinygrad 0.14.0, with DEV=CPU and DEV=PYTHON
# Belief: A `TinyJit` function returns new tensors, and a Python number in it is read in each call.
# Seen: From the second call on all returned tensors are one buffer: of six fitnesses 0, 3, ..., 15 in a list the last five are
#   15. A Python number, as an argument or as an attribute, is that of the second call for ever: sigma of 1 to 5 gives 1, 2, 2, 2,
#   2.
# Means: All members but one have one fitness, so ranks are ties; and a sigma or learning rate that decays stays as it was. Take
#   `.item()` in each call, and give changing numbers as tensors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tinygrad==0.14.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os

os.environ["DEV"] = "PYTHON"  # needs no compiler; the same was seen with DEV=CPU and clang

from tinygrad import Tensor, TinyJit


@TinyJit
def fitness(x):
    return x.sum().realize()


@TinyJit
def scaled(x, sigma):
    return (x * sigma).sum().realize()


aside = [fitness(Tensor([float(member)] * 3).realize()) for member in range(6)]
later = [one.item() for one in aside]
at_once = [fitness(Tensor([float(member)] * 3).realize()).item() for member in range(6)]
sigmas = [scaled(Tensor([1.0]).realize(), sigma).item() for sigma in (1.0, 2.0, 3.0, 4.0, 5.0)]
print("fitnesses 0, 3, ..., 15 set aside:", later, "| read at once:", at_once, "| sigma of 1 to 5:", sigmas)
raise SystemExit((later, at_once, sigmas) != ([0] + [15] * 5, [0, 3, 6, 9, 12, 15], [1, 2, 2, 2, 2]))
EOF
