#!/usr/bin/env bash
# A safetensors file with two keys of metadata has other bytes in each process
#
# Version: safetensors 0.8.0, numpy 2.4.6
# Belief: The same tensors and the same metadata give the same file, so its SHA-256 names the model.
# Seen: Keys of the metadata are written in the order of a hash map with a random seed: of twelve processes that save one
#   tensor with three keys, several write different files. With one key all files are the same.
# Means: A checkpoint's digest shows nothing about whether a run was repeated bit for bit. Put all metadata under one key, as
#   JSON with sorted keys, or take the digest of tensors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet safetensors==0.8.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import hashlib
import subprocess
import sys

SAVE = """
import sys
import numpy
import safetensors.numpy
keys = {name: "value" for name in sys.argv[1:]}
sys.stdout.buffer.write(safetensors.numpy.save({"weight": numpy.zeros(4)}, metadata=keys))
"""


def files(*keys):
    runs = [subprocess.run([sys.executable, "-c", SAVE, *keys], stdout=subprocess.PIPE, check=True).stdout for _ in range(12)]
    return len({hashlib.sha256(run).hexdigest() for run in runs})


one, three = files("a"), files("a", "b", "c")
print(f"different files of twelve processes: {one} with one key of metadata, {three} with three")
raise SystemExit(not (one == 1 and three > 1))
EOF
