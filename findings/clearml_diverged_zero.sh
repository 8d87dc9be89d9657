#!/usr/bin/env bash
# A diverged run has a loss of 0 in ClearML: NaN and infinity are recorded as 0.0
#
# Version: clearml 2.1.12
# Belief: A loss of NaN or infinity is in the record as such, or missing from it.
# Seen: `report_scalar` writes 0.0 for both, with one line on the first of each kind. The file of an offline session, and what is sent from it,
#   does not tell them from a loss of 0, and the smallest loss of the run is the one with which it diverged.
# Means: Runs that are sorted by their least or last loss have the diverged ones on top. Set `Logger.set_reporting_nan_value` and
#   `set_reporting_inf_value` to a large number, or leave such steps out and report a count of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet clearml==2.1.12
cd "$folder"
export HOME="$folder" CLEARML_CACHE_DIR="$folder/cache"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import json
import math
import os
from pathlib import Path

os.environ["CLEARML_OFFLINE_MODE"] = "1"
from clearml import Task

LOSSES = [0.7, 0.5, 0.9, math.inf, math.nan]
task = Task.init("project", "diverged", auto_connect_frameworks=False, auto_resource_monitoring=False, auto_connect_arg_parser=False)
for step, loss in enumerate(LOSSES):
    task.get_logger().report_scalar("loss", "train", loss, step)
folder = Path(task.get_offline_mode_folder())
task.close()
folder = folder.with_suffix("") if folder.suffix == ".zip" else folder
events = [event for line in (folder / "metrics.jsonl").read_text().splitlines() for event in json.loads(line)]
recorded = [event["value"] for event in events if event["metric"] == "loss"]
print(f"logged {LOSSES}, recorded {recorded}")
raise SystemExit(recorded != [0.7, 0.5, 0.9, 0.0, 0.0])
PROGRAM
