#!/usr/bin/env bash
# Quantised values of hyperopt lie outside of their range, and the ends of uniformint are rare
#
# Version: hyperopt 0.3.0, numpy 2.4.6
# Belief: hp.quniform(name, 1, 10, 4) gives 1, 5 and 9, or values between 1 and 10; uniformint(1, 3) gives each of three a
#   third.
# Seen: A value is rounded to multiples of the step, counted from 0: quniform(1, 10, 4) gives 0, 4 and 8. A seventh of the
#   draws is 0, below the range. uniformint(1, 3) gives 2 half of the time, 1 and 3 a quarter each.
# Means: A population or batch size of 0 is proposed where 1 is the least, and the ends of a range of layers or ranks are
#   tried half as often. Use choice over the values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hyperopt==0.3.0 numpy==2.4.6 'setuptools<81'
"$folder/venv/bin/python" -W ignore - <<'EOF'
from collections import Counter

import numpy as np
from hyperopt import hp
from hyperopt.pyll.stochastic import sample

rng = np.random.default_rng(0)
steps = Counter(float(sample(hp.quniform("x", 1, 10, 4), rng=rng)) for _ in range(3000))
whole = Counter(int(sample(hp.uniformint("x", 1, 3), rng=rng)) for _ in range(3000))
print(f"quniform(1, 10, 4): {sorted(steps.items())}")
print(f"uniformint(1, 3): {sorted(whole.items())}")
raise SystemExit(not (set(steps) == {0, 4, 8} and whole[2] > 1.6 * whole[1] and whole[2] > 1.6 * whole[3]))
EOF
