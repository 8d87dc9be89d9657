#!/usr/bin/env bash
# A NaN in tinygrad is lost or wins by its place, becomes a neighbour in a sort, and is 0 behind a relu
#
# Version: tinygrad 0.14.0, with DEV=CPU and DEV=PYTHON
# Belief: A diverged member has a NaN, and a NaN stays one in maxima, sorts and activations, as in numpy.
# Seen: `max` of [1, NaN, 3] is 3, and of [NaN, 1, 3] NaN with an `argmax` of 3, which is no place. `sort` gives [1, 1, 3], [NaN,
#   NaN, NaN] or [1, 3, inf]. `relu`, `relu6` and `elu` make it 0, `sign` 1; `softmax`, `abs` and `clip` keep it.
# Means: A diverged network has ordinary outputs; elites of a sorted population are copies of others, and ranks have places twice.
#   Replace what is not finite before.
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

rows, wanted = {}, {}
for name, numbers, expected in (
    ("first", [float("nan"), 1.0, 3.0], ("nan", 3, ["nan"] * 3, [0, 0, 0])),
    ("second", [1.0, float("nan"), 3.0], ("3.0", 2, ["1.0", "1.0", "3.0"], [0, 0, 2])),
    ("last", [1.0, 3.0, float("nan")], ("3.0", 1, ["1.0", "3.0", "inf"], [0, 1, 0])),
):
    x = Tensor(numbers)
    values, places = x.sort()
    rows[name] = (str(x.max().item()), x.argmax().item(), [str(one) for one in values.tolist()], places.tolist())
    wanted[name] = expected
    print(f"NaN {name}: max {rows[name][0]}, argmax {rows[name][1]}, sorted {rows[name][2]}, places {rows[name][3]}")
nan = Tensor([float("nan")])
after = {name: getattr(nan, name)().item() for name in ("relu", "relu6", "elu", "sign", "abs")}
print("of a NaN:", after)
raise SystemExit(not (rows == wanted and [after[name] for name in ("relu", "relu6", "elu", "sign")] == [0, 0, 0, 1] and after["abs"] != after["abs"]))
EOF
