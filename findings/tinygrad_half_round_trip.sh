#!/usr/bin/env bash
# In tinygrad a cast to half and back rounds nothing
#
# Version: tinygrad 0.14.0, with DEV=CPU and DEV=PYTHON
# Belief: `x.half().float()` has the numbers that are left when weights are stored in half precision.
# Seen: Both casts are taken out of the graph: none of 1,000 normal numbers changes, 70,000 stays 70,000 and 1e-9 stays 1e-9. With
#   `.contiguous()` between the casts all change, and they are infinity and 0. A bfloat16 or int8 trip rounds.
# Means: A search that evaluates members as half-precision weights evaluates float32 ones, and finds that rounding costs nothing;
#   a network that overflows when it is saved did not before. Put `.contiguous()` between, or realise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tinygrad==0.14.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os

os.environ["DEV"] = "PYTHON"  # needs no compiler; the same was seen with DEV=CPU and clang

import numpy as np
from tinygrad import Tensor, dtypes

numbers = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
x, ends = Tensor(numbers).realize(), Tensor([1e-9, 70_000.0]).realize()
seen = {
    "half": int((x.half().float().numpy() != numbers).sum()),
    "half, contiguous": int((x.half().contiguous().float().numpy() != numbers).sum()),
    "int8": int((x.cast(dtypes.int8).float().numpy() != numbers).sum()),
}
plain, stored = ends.half().float().tolist(), ends.half().contiguous().float().tolist()
print("numbers of 1,000 that a cast there and back changes:", seen, "| 1e-9 and 70,000:", plain, "contiguous:", stored)
raise SystemExit(not (list(seen.values()) == [0, 1000, 1000] and plain[1] == 70_000 and plain[0] > 0 and stored == [0, float("inf")]))
EOF
