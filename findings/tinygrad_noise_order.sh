#!/usr/bin/env bash
# Noise tensors of tinygrad that are used in another order than they were drawn are all the same noise
#
# Version: tinygrad 0.14.0, with DEV=CPU and DEV=PYTHON
# Belief: `z = [Tensor.randn(3) for member in members]` draws a noise for each member by the seed.
# Seen: Tensors are lazy, and the counter of the stream is one buffer that each evaluation reads as it is by then. Evaluated in
#   the order 2, 1, 0 all three members have the third's numbers; in the order 1, 0, 2 two have the second's. In order, or
#   together by `Tensor.realize(*z)`, all are different. `rand` does the same.
# Means: A population that is evaluated from the last member, or whose best member is looked at first, has one direction in place
#   of many, with no word. Realise noise when it is drawn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tinygrad==0.14.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os

os.environ["DEV"] = "PYTHON"  # needs no compiler; the same was seen with DEV=CPU and clang

from tinygrad import Tensor


def noises(order, together=False):
    Tensor.manual_seed(3)
    drawn = [Tensor.randn(3) for _ in range(3)]
    if together:
        Tensor.realize(*drawn)
    numbers = {place: tuple(drawn[place].tolist()) for place in order}
    return len(set(numbers.values()))


seen = {str(order): noises(order) for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0))}
seen["(2, 1, 0) realised together first"] = noises((2, 1, 0), together=True)
print("different noises of three members by the order of their evaluation:", seen)
raise SystemExit(list(seen.values()) != [3, 2, 1, 3])
EOF
