#!/usr/bin/env bash
# swanlab keeps the first value of a step and drops a later one without a word
#
# Version: swanlab 0.10.3
# Belief: A value logged again at a step replaces the first, or both are kept; steps that go back are refused.
# Seen: In the file of an offline run a second value of a step is missing, with no warning. A step that goes back is kept in
#   the order of logging, and NaN and infinity are kept.
# Means: A run that is resumed from a checkpoint and logs some generations again keeps the curve of the part that was thrown
#   away. Begin another run, or log under another name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet swanlab==0.10.3
cd "$folder"
cat >program.py <<'PROGRAM'
import struct
from pathlib import Path

import swanlab

swanlab.init(project="p", mode="offline", logdir="runs")
logged = [(1, 1.25), (5, 5.25), (3, 3.25), (5, 55.25), (6, float("inf"))]
for step, value in logged:
    swanlab.log({"loss": value}, step=step)
swanlab.finish()
(file,) = Path("runs").glob("*/run-*.swanlab")
kept = [value for _, value in logged if struct.pack("<d", value) in file.read_bytes()]
print("logged (step, value):", logged, "kept:", kept)
raise SystemExit(kept != [1.25, 5.25, 3.25, float("inf")])
PROGRAM
HOME="$folder" "$folder/venv/bin/python" program.py
