#!/usr/bin/env bash
# DEHB's incumbent is the best score at any budget: a setting that is good after one epoch and bad after 27
#
# Version: dehb 0.1.2, configspace 1.2.2, numpy 1.26.4
# Belief: The incumbent is the best configuration at the largest fidelity that was evaluated, as in BOHB.
# Seen: Scores of all fidelities are compared. Where early scores are lower than late ones (a loss on few examples, a large learning rate that
#   gains at first), `get_incumbents` and the trajectory name a configuration by its score after one epoch: 0.001 or less there, and 0.9
#   after 27, where the best of 33 full runs has 0.1 to 0.3. It is also the "best" that mutations with `best` begin from.
# Means: Reported curves of DEHB fall by scores that no full run has. Take the least of the rows of `history` with the largest fidelity.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet dehb==0.1.2 configspace==1.2.2 numpy==1.26.4
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import tempfile

import ConfigSpace
import numpy as np
from dehb import DEHB
from loguru import logger

logger.remove()


def loss_at(rate, fidelity):
    """Loss with a best rate of 0.9 after one epoch and of 0.1 after 27."""
    late = (fidelity - 1) / 26
    return late * (0.1 + abs(rate - 0.1)) + (1 - late) * abs(rate - 0.9)


holds = []
for seed in (1, 2, 3):
    rows = []

    def train(config, fidelity, **_):
        rows.append((fidelity, config["rate"], loss_at(config["rate"], fidelity)))
        return {"fitness": rows[-1][2], "cost": fidelity}

    space = ConfigSpace.ConfigurationSpace(seed=seed)
    space.add(ConfigSpace.Float("rate", (0.001, 1.0)))
    search = DEHB(f=train, cs=space, dimensions=1, min_fidelity=1, max_fidelity=27, eta=3, n_workers=1, seed=seed, save_freq=None,
                  output_path=tempfile.mkdtemp(dir="."))
    trajectory, _, _ = search.run(fevals=300)
    config, score = search.get_incumbents()
    table = np.array(rows)
    full = table[table[:, 0] == 27]
    holds.append((score, loss_at(config["rate"], 27), full[:, 2].min(), trajectory[-1]))
    print(f"seed {seed}: incumbent {config['rate']:.3f} with {score:.4f}, which has {holds[-1][1]:.3f} after 27 epochs; the best of {len(full)} "
          f"full runs has {holds[-1][2]:.3f}")
raise SystemExit(not all(score == last < 0.05 and late > 0.7 and best < 0.4 for score, late, best, last in holds))
PROGRAM
