#!/usr/bin/env bash
# A NaN in the first evaluation is ignite's best checkpoint for the rest of the run
#
# Version: pytorch-ignite 0.5.5, torch 2.14.1, numpy 2.4.6
# Belief: `Checkpoint(score_function=..., n_saved=1)` keeps the weights with the highest score, and `EarlyStopping` stops
#   where the score no longer rises.
# Seen: Scores of NaN, -3, -1, -2: the one file is that of NaN, as no score is greater than it, and -1 is never written. With
#   the NaN later the file is right. `EarlyStopping` takes the NaN for its best score and forgets the one before: after -1,
#   NaN every score is an improvement once more, so that -1, NaN, -2, -1.5 with a patience of 2 goes on, where -1, -2, -3
#   ends.
# Means: A run whose first evaluation overflowed ends with the weights of that evaluation, whatever came later. Let the score
#   function give minus infinity.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pytorch-ignite==0.5.5 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os
import tempfile

import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint, DiskSaver, EarlyStopping

nan, seen = float("nan"), {}
for scores in ((nan, -3.0, -1.0, -2.0), (-3.0, -1.0, nan, -2.0), (-1.0, -2.0, -3.0, -4.0), (-1.0, nan, -2.0, -1.5)):
    engine, folder, module = Engine(lambda engine, batch: None), tempfile.mkdtemp(), torch.nn.Linear(1, 1)
    score = lambda engine, scores=scores: scores[engine.state.epoch - 1]
    stopping = EarlyStopping(2, score, engine)
    engine.add_event_handler(
        Events.EPOCH_COMPLETED,
        Checkpoint({"module": module}, DiskSaver(folder), n_saved=1, score_function=score, score_name="score"),
    )
    engine.add_event_handler(Events.EPOCH_COMPLETED, stopping)
    engine.run([0], max_epochs=4)
    seen[scores] = os.listdir(folder), engine.state.epoch, stopping.best_score
    print(scores, "file, epochs run, best score of EarlyStopping:", *seen[scores])
files, epochs, best = zip(*seen.values())
raise SystemExit(
    ["nan" in file[0] for file in files] != [True, False, False, False]
    or not all("-1.0" in file[0] for file in files[1:])
    or epochs != (4, 4, 3, 4)
    or best[3] != -1.5
)
EOF
