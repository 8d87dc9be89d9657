#!/usr/bin/env bash
# A chunk that is missing in a zarr array reads as zeros, and rows of two writers are lost
#
# Version: zarr 3.1.6, tensorstore 0.1.86, numpy 2.4.6
# Belief: A file that is lost from a checkpoint is an error when it is read; ranks that write rows of their own do not meet.
# Seen: A deleted chunk is zeros in zarr and in tensorstore, as are rows that were never written, without a word. Two threads that
#   write different rows of one chunk lose a row in most of 200 generations, two processes in some: each write is a read of the
#   chunk and a write of all of it.
# Means: Half of a population or centre is zeros after a copy that was cut short, and a rank's fitnesses of this generation are
#   those of the one before. Chunks as large as what a rank writes, `fill_value` NaN, and a hash of all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet zarr==3.1.6 tensorstore==0.1.86 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os
import threading

import numpy as np
import tensorstore
import zarr

for fill in (0, np.nan):
    path = os.path.abspath(f"population_{fill}")
    array = zarr.create_array(path, shape=(8, 4), chunks=(2, 4), dtype="f4", fill_value=fill)
    array[:6] = 1
    os.remove(os.path.join(path, "c", "1", "0"))
    other = tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": path}}, open=True).result().read().result()
    rows = zarr.open_array(path, mode="r")[:, 0].tolist()
    print(f"fill_value {fill}: rows 2 and 3 lost, 6 and 7 not written: zarr {rows}, tensorstore {other[:, 0].tolist()}")
    if fill == 0:
        seen = rows, other[:, 0].tolist()
array = zarr.create_array("two_rows", shape=(2, 4), chunks=(2, 4), dtype="f4")
lost = 0
for generation in range(1, 201):
    start = threading.Barrier(2)

    def write(row):
        start.wait()
        zarr.open_array("two_rows", mode="r+")[row] = generation

    threads = [threading.Thread(target=write, args=(row,)) for row in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    lost += int((array[:, 0] != generation).any())
print(f"of 200 generations that two threads wrote into rows of one chunk, {lost} lack a row")
raise SystemExit(seen != ([1, 1, 0, 0, 1, 1, 0, 0],) * 2 or lost == 0)
EOF
