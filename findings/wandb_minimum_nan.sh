#!/usr/bin/env bash
# One diverged generation makes a wandb run's minimum, maximum and mean NaN for the rest of the run
#
# Version: wandb 0.31.0
# Belief: `define_metric("loss", summary="min")` names the smallest loss, as the page of the project shows it.
# Seen: In the file of an offline run the minimum of 2, 1, NaN, 0.5 is 2, 1, NaN, NaN, and minus infinity does not change it; so
#   are the maximum and the mean. A NaN in the config is null in that file, an infinity stays. A log to an earlier step is dropped, and
#   what is logged next without a step belongs to the last step that was named.
# Means: A sweep that is sorted by the minimum puts each run with one diverged generation among those that failed, whatever it
#   reached later. Log the best finite loss as a metric of its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet wandb==0.31.0
cd "$folder"
HOME="$folder" WANDB_MODE=offline WANDB_SILENT=true "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import json
import struct
from pathlib import Path

import wandb
from wandb.proto.wandb_internal_pb2 import Record

run = wandb.init(project="p", config={"limit": float("nan"), "bound": float("inf")}, settings=wandb.Settings(x_disable_stats=True))
kinds = ("min", "max", "mean")
for kind in kinds:
    wandb.define_metric(kind, summary=kind)
losses = (2.0, 1.0, float("nan"), 0.5, float("-inf"), 3.0)
for step, loss in enumerate(losses, 1):
    run.log(dict.fromkeys(kinds, loss), step=step)
run.log({"late": 1.0}, step=10)
run.log({"late": 2.0}, step=8)
run.log({"next": 4.0})
run.finish()
wandb.teardown()  # waits until the file is complete


def records(data):
    """Yield the messages of a file in LevelDB's log format: blocks of 32 KiB of fragments (checksum, length, kind)."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        _, length, kind = struct.unpack_from("<IHB", data, at) if left >= 7 else (0, 0, 0)
        if kind == 0:
            at += left
            continue
        parts = (b"" if kind in (1, 2) else parts) + data[at + 7 : at + 7 + length]
        if kind in (1, 4):
            yield Record.FromString(parts)
        at += 7 + length


def name(item):
    return ".".join(item.nested_key) if item.nested_key else item.key


(file,) = Path("wandb").glob("offline-run-*/run-*.wandb")
summaries, rows, config = [], {}, {}
for record in records(file.read_bytes()):
    if record.WhichOneof("record_type") == "summary":
        summaries.append({name(item): json.loads(item.value_json) for item in record.summary.update})
    elif record.WhichOneof("record_type") == "history":
        rows[record.history.step.num] = {name(item): json.loads(item.value_json) for item in record.history.item if name(item)[0] != "_"}
    elif record.WhichOneof("record_type") == "run":
        config = {name(item): item.value_json for item in record.run.config.update}
course = {kind: [each[kind][kind] for each in summaries if kind in each] for kind in kinds}
print("logged:", losses)
print("summaries, one a generation:", course)
print("config:", {key: config[key] for key in ("limit", "bound")})
print("rows from step 10:", {step: row for step, row in rows.items() if step >= 7})
nan = all(value != value for kind in kinds for value in course[kind][2:6])
holds = nan and course["min"][:2] == [2, 1] and config["limit"] == "null" and config["bound"] == "Infinity"
raise SystemExit(not (holds and rows[10] == {"late": 1, "next": 4} and 8 not in rows))
PROGRAM
