#!/usr/bin/env bash
# The best step of a long curve is not in what TensorBoard's reader gives
#
# Version: tensorboard 2.21.0, tensorboardX 2.6.5, numpy 2.4.6
# Belief: EventAccumulator(folder).Scalars(tag) has every point that was written.
# Seen: It keeps 10,000 points of a tag, drawn at random: of 20,001 generations with one peak at the 5,000th the maximum read
#   is 0. Values are float32: 1e8 + 1 is 1e8.
# Means: A best fitness, or the first generation at a goal, taken from event files of long runs is wrong, and differences of
#   large fitnesses vanish. Give size_guidance={'scalars': 0}; read such figures from a log of your own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tensorboard==2.21.0 tensorboardX==2.6.5 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboardX import SummaryWriter

with tempfile.TemporaryDirectory() as folder:
    writer = SummaryWriter(folder)
    for step in range(20_001):
        writer.add_scalar("fitness", float(step == 5_000), step)
    writer.add_scalar("large", 1e8 + 1, 0)
    writer.close()
    best = {}
    for guidance in (None, {"scalars": 0}):
        events = EventAccumulator(folder, size_guidance=guidance)
        events.Reload()
        values = [event.value for event in events.Scalars("fitness")]
        best[guidance is None] = len(values), max(values)
        print(f"size_guidance={guidance}: {len(values)} points, maximum {max(values)}")
    large = events.Scalars("large")[0].value
print("1e8 + 1 is read as", large)
raise SystemExit(best[True][0] != 10_000 or best[False] != (20_001, 1.0) or large != 1e8)
EOF
