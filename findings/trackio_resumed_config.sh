#!/usr/bin/env bash
# A resumed trackio run has the settings of its last session alone: the seed and the learning rate of the first are gone
#
# Version: trackio 0.43.0
# Belief: `init(resume="must", config=...)` goes on with a run, and adds to its settings, as wandb does.
# Seen: The settings are replaced. After a session with a seed and a learning rate, and one that names only a new learning rate, the seed is
#   in no table; a session without `config` leaves none at all. The metrics of both are there, with steps in one sequence.
# Means: A run that was killed and resumed cannot be repeated from its record, and a filter by seed does not find it. Give the complete
#   config in every session.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet trackio==0.43.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import contextlib
import io
import json
import os
import sqlite3
from pathlib import Path

os.environ["TRACKIO_DIR"] = str(Path("store").resolve())
import trackio


def session(name, loss, **settings):
    with contextlib.redirect_stdout(io.StringIO()):
        trackio.init(project="project", name=name, **settings)
        trackio.log({"loss": loss})
        trackio.finish()


session("first", 1.0, config={"seed": 7, "learning_rate": 0.1})
session("first", 2.0, config={"learning_rate": 0.01}, resume="must")
session("second", 1.0, config={"seed": 8, "learning_rate": 0.1})
session("second", 2.0, resume="must")
tables = sqlite3.connect(next(Path("store").glob("*.db")))
seen = {}
for name, config in tables.execute("select run_name, config from configs"):
    steps = tables.execute("select step from metrics where run_name = ? order by id", (name,)).fetchall()
    seen[name] = {key: value for key, value in json.loads(config).items() if not key.startswith("_")}
    print(f"{name}: settings {seen[name]}, steps {[step for (step,) in steps]}")
raise SystemExit(seen != {"first": {"learning_rate": 0.01}, "second": {}})
PROGRAM
