#!/usr/bin/env bash
# TensorBoard reads the tenth event file of a second before the second one
#
# Version: tensorboard 2.21.0, numpy 2.4.6
# Belief: A curve written by several writers in turns is read in the order in which it was written.
# Seen: Names of event files end with a counter, and files of one second are read in the order of their text: .1, .10, .11, .2.
#   A curve of 36 steps over twelve files is read as steps 0 to 5, 30 to 35, then 6 to 29.
# Means: The last value of a curve is not the last that was written, and lines go back and forth. One writer for a run; sort by
#   step and take the later wall time before a value is called final.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorboard==2.21.0 numpy==2.4.6 setuptools==80.9.0
"$folder/venv/bin/python" -W ignore - 2>&1 <<'EOF'
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

with tempfile.TemporaryDirectory() as folder:
    time.sleep(1.05 - time.time() % 1)
    for number in range(12):
        writer = EventFileWriter(folder)
        for step in range(3 * number, 3 * number + 3):
            value = Summary.Value(tag="loss", simple_value=float(step))
            writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
        writer.close()
    reader = EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    steps = [event.step for event in reader.Scalars("loss")]
print("steps 0 to 35 in twelve files are read as", *steps)
raise SystemExit(sorted(steps) != list(range(36)) or steps[3:9] != [3, 4, 5, 30, 31, 32] or steps[-1] != 29)
EOF
