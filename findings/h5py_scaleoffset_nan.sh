#!/usr/bin/env bash
# With a scale and offset filter h5py stores a NaN as the smallest number of its chunk
#
# Version: h5py 3.16.0, numpy 2.4.6
# Belief: `scaleoffset=4` keeps four decimals of each loss, and a NaN stays NaN.
# Seen: A NaN among 64 losses is read as their minimum, in float32 and float64, and nothing is said. While the data set is
#   open it still has the NaN and all digits, as the filter runs when the chunk is written. An infinity, or 1e20, stays, and
#   then the others keep all their digits too.
# Means: The member that diverged has the best loss of its generation in the file, and a check before the file is closed does not
#   see it. Leave the filter out for losses; `compression="gzip"` keeps a NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet h5py==3.16.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import h5py
import numpy as np

seen = []
for kind in (np.float32, np.float64):
    losses = np.random.default_rng(0).normal(size=64).astype(kind)
    losses[5] = np.nan
    for name, options in {"scaleoffset": {"scaleoffset": 4}, "gzip": {"compression": "gzip"}}.items():
        with h5py.File("losses.h5", "w") as file:
            data = file.create_dataset("losses", data=losses, chunks=(64,), **options)
            open_value = data[5]
        with h5py.File("losses.h5") as file:
            read = file["losses"][:]
        others = np.abs(np.delete(read, 5) - np.delete(losses, 5)).max()
        print(kind.__name__, name, "before:", open_value, "after:", read[5], "minimum:", np.nanmin(losses), "others err by", others)
        seen.append((np.isnan(open_value), np.isnan(read[5]), abs(read[5] - np.nanmin(losses)) < 1e-4, bool(read.argmin() == 5)))
expected = [(True, False, True), (True, True, False)] * 2
raise SystemExit([row[:3] for row in seen] != expected)
EOF
