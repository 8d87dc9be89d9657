#!/usr/bin/env bash
# Shuffled shards of a WebDataset have one order in every epoch
#
# Version: webdataset 1.0.2, torch 2.14.1
# Belief: shardshuffle draws another order of the shards for each epoch, as a shuffling DataLoader does.
# Seen: A WebDataset draws one seed when it is created, and each pass begins from it: eight shards come in the same order in
#   every epoch of the object. Another object has another order. `.shuffle(n)` over samples differs from pass to pass.
# Means: A run of many epochs over shards sees every member's batch in the same neighbourhood each time, and a resumed
#   process sees another order. Use detshuffle with epochs of your own, or create the dataset anew.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet webdataset==1.0.2 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import io
import sys
import tarfile

import webdataset as wds

folder = sys.argv[1]
for number in range(8):
    with tarfile.open(f"{folder}/{number}.tar", "w") as file:
        entry = tarfile.TarInfo(f"{number}.txt")
        entry.size = 1
        file.addfile(entry, io.BytesIO(b"x"))


def dataset():
    return wds.WebDataset(folder + "/{0..7}.tar", shardshuffle=100)


def order(data):
    return "".join(sample["__key__"][-1] for sample in data)


one = dataset()
epochs = [order(one) for _ in range(4)]
objects = [order(dataset()) for _ in range(4)]
samples = wds.WebDataset(folder + "/{0..7}.tar", shardshuffle=False).shuffle(100)
passes = [order(samples) for _ in range(4)]
print(f"epochs of one dataset {epochs}")
print(f"first epochs of four {objects}")
print(f"epochs with .shuffle over samples {passes}")
raise SystemExit(len(set(epochs)) != 1 or len(set(objects)) == 1 or len(set(passes)) == 1)
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
