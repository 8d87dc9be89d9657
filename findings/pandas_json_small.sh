#!/usr/bin/env bash
# pandas writes 1e-12 to JSON as zero, and 1e-16 as it is
#
# Version: pandas 3.1.1, numpy 2.4.6
# Belief: DataFrame.to_json writes floats so that they are read back, as json.dumps, to_csv and repr do.
# Seen: Ten digits after the point are written, and an exponent only below 1e-15: 1e-9 is kept, 1e-11 to 1e-15 become 0.0,
#   1e-16 is kept. All of 1,000 normal numbers come back with other bits. double_precision=15, the most that is allowed, moves
#   the gap. to_csv and read_csv keep every bit.
# Means: Losses near convergence, step sizes of CMA-ES and weight decays are zero in the record, and a logarithmic plot of it
#   has a hole. Write CSV, or json.dumps of to_dict().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import io
import json

import numpy as np
import pandas as pd

frame = pd.DataFrame({"sigma": [1e-9, 1e-11, 1e-12, 1e-14, 1e-16, 1e-20]})
read = pd.read_json(io.StringIO(frame.to_json()))["sigma"].tolist()
print("written", *frame["sigma"])
print("read   ", *read)
normal = pd.DataFrame({"x": np.random.default_rng(0).standard_normal(1000)})
back = {
    "to_json": pd.read_json(io.StringIO(normal.to_json()))["x"],
    "to_json, 15 digits": pd.read_json(io.StringIO(normal.to_json(double_precision=15)))["x"],
    "to_csv": pd.read_csv(io.StringIO(normal.to_csv(index=False)))["x"],
    "json.dumps": pd.Series(list(json.loads(json.dumps(normal.to_dict()))["x"].values())),
}
other = {name: int((column.to_numpy() != normal["x"].to_numpy()).sum()) for name, column in back.items()}
print("numbers with other bits, of 1,000:", other)
kept = other["to_json"] == 1000 and other["to_csv"] == other["json.dumps"] == 0
raise SystemExit(not (kept and read == [1e-9, 0.0, 0.0, 0.0, 1e-16, 1e-20]))
EOF
