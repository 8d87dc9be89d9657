#!/usr/bin/env bash
# Files of a WebDataset whose names hold a number with a point are one sample
#
# Version: webdataset 1.0.2, torch 2.14.1
# Belief: A sample is the files of one name with different extensions; the extension is what follows the last point.
# Seen: The name ends at the first point. `run/1.0.png`, `run/1.0.cls`, `run/1.5.png` and `run/1.5.cls` are one sample
#   `run/1` with the parts 0.png, 0.cls, 5.png and 5.cls, with no word said.
# Means: Shards of episodes or sweeps named by a learning rate or a time have a tenth of their samples, and a decoder for
#   png takes one of them. Count samples after writing.
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

names = ["run/1.0.png", "run/1.0.cls", "run/1.5.png", "run/1.5.cls"]
with tarfile.open(f"{sys.argv[1]}/0.tar", "w") as file:
    for name in names:
        entry = tarfile.TarInfo(name)
        entry.size = 1
        file.addfile(entry, io.BytesIO(b"x"))
samples = [
    {key for key in sample if not key.startswith("__")} | {sample["__key__"]}
    for sample in wds.WebDataset(f"{sys.argv[1]}/0.tar", shardshuffle=False)
]
print(f"four files of two samples: {[sorted(sample) for sample in samples]}")
raise SystemExit(samples != [{"run/1", "0.png", "0.cls", "5.png", "5.cls"}])
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
