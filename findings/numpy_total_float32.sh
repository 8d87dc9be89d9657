#!/usr/bin/env bash
# Under numpy 2 a return that is added up from 0.0 is a float32
#
# Version: numpy 1.26.4 and 2.4.6
# Belief: total = 0.0; total += reward adds in double precision, since 0.0 is a Python float.
# Seen: With rewards of np.float32 the total is a float64 under numpy 1.26 and a float32 under numpy 2, from the first step
#   on. A million rewards of 0.1 are 100000.0 in the one and 100958.3 in the other; of 1e-8 added to 1 none arrives.
# Means: The same environment has other returns after an update of numpy, members whose returns differ in the eighth digit
#   tie, and long episodes drift by a percent. Write total += float(reward), or np.sum(rewards, dtype=np.float64).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/program.py" <<'EOF'
import numpy as np

total = 0.0
for _ in range(1_000_000):
    total += np.float32(0.1)
small = 0.0
for reward in np.array([1] + [1e-8] * 1000, np.float32):
    small += reward
print(np.__version__, type(total).__name__, round(float(total), 1), float(small))
EOF
for pin in numpy==1.26.4 numpy==2.4.6; do
    python3 -m venv "$folder/$pin"
    "$folder/$pin/bin/pip" install --quiet "$pin"
    "$folder/$pin/bin/python" "$folder/program.py"
done | tee "$folder/out"
grep -q "^1.26.4 float64 100000.0 1.0000" "$folder/out" && grep -q "^2.4.6 float32 100958.3 1.0$" "$folder/out"
