#!/usr/bin/env bash
# An archive calls every member of a batch new, where one by one only the first would be
#
# Version: ribs 0.12.0, numpy 2.4.6
# Belief: add() compares a batch as add_single() would in turn: status 2 (new cell) for the first in a cell, then 1 (better)
#   or 0.
# Seen: Status and value of a batch are against the archive before it: three solutions in one empty cell have status 2, 2, 2
#   and value 1, 2, 2; in turn 2, 1, 0 and 1, 1, 0.
# Means: CMA-ME's ranking by improvement counts duplicates inside a generation as discoveries, and depends on the size of the
#   batch: an asynchronous or rank-by-rank archive is another algorithm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ribs==0.12.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from ribs.archives import GridArchive


def archive():
    return GridArchive(solution_dim=1, dims=[5, 5], ranges=[(0, 1), (0, 1)])


objective, measures = [1.0, 2.0, 2.0], [[0.5, 0.5]] * 3
batch = archive().add(np.zeros((3, 1)), objective, measures)
turns, single = archive(), []
for value, measure in zip(objective, measures):
    single.append(turns.add_single(np.zeros(1), value, measure))
statuses, values = [int(x["status"]) for x in single], [float(x["value"]) for x in single]
print("batch: status", batch["status"].tolist(), "value", batch["value"].tolist())
print("one by one: status", statuses, "value", values)
raise SystemExit(batch["status"].tolist() != [2, 2, 2] or statuses != [2, 1, 0])
EOF
