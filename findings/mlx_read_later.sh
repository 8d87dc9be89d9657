#!/usr/bin/env bash
# Weights that MLX loaded are those that the file has when they are first used
#
# Version: mlx 0.32.4
# Belief: `mx.load` gives the weights that are in the file.
# Seen: Arrays are read when they are evaluated. A safetensors or npy file that is saved again before that gives the new numbers
#   under the old name; npz gives the old ones. `mx.eval` right after the load does too.
# Means: The best generation that was loaded for comparison is the last one where a run goes on writing to its file, and a resumed
#   centre can be a later one. Evaluate what was loaded at once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import mlx.core as mx

mx.set_default_device(mx.cpu)
writers = {
    "safetensors": lambda path, value: mx.save_safetensors(path, {"w": mx.full((1000,), value)}),
    "npy": lambda path, value: mx.save(path, mx.full((1000,), value)),
    "npz": lambda path, value: mx.savez(path, w=mx.full((1000,), value)),
}
seen = {}
for ending, write in writers.items():
    for when in ("at once", "later"):
        write(f"weights.{ending}", 1.0)
        loaded = mx.load(f"weights.{ending}")
        weights = loaded if ending == "npy" else loaded["w"]
        if when == "at once":
            mx.eval(weights)
        write(f"weights.{ending}", 2.0)
        seen[ending, when] = weights[0].item()
print("loaded as 1, then the file saved again with 2:", seen)
wanted = {(ending, when): 2.0 if when == "later" and ending != "npz" else 1.0 for ending, when in seen}
raise SystemExit(seen != wanted)
EOF
