#!/usr/bin/env bash
# datasets.map keeps the results of a helper that has changed
#
# Version: datasets 5.2.0
# Belief: The cache of `map` knows a function by its code, so a changed preprocessing is computed again.
# Seen: The function itself, its closure and globals of the main program count. A function that it calls in another module
#   does not: after that module was edited and loaded again, `map` returns the old numbers from its cache, also in a new
#   process.
# Means: A tokenizer wrapper or a normalisation moved to a file of its own is edited, and training goes on with the old
#   data; two machines with other caches train on other data. Give `new_fingerprint`, or load_from_cache_file=False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0
cat >"$folder/program.py" <<'EOF'
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])
program = folder / "prepare.py"
program.write_text("""
import sys
sys.path.insert(0, sys.argv[1])
import datasets
import helper
datasets.disable_progress_bars()
data = datasets.load_dataset("csv", data_files=sys.argv[1] + "/data.csv", split="train", cache_dir=sys.argv[1] + "/cache")
print(data.map(lambda row: {"z": helper.scaled(row["x"])})["z"][:])
""")
(folder / "data.csv").write_text("x\n1\n2\n3\n")


def prepared(factor):
    (folder / "helper.py").write_text(f"def scaled(x):\n    return x * {factor}\n")
    done = subprocess.run([sys.executable, "-B", program, folder], capture_output=True, text=True, check=True)
    return done.stdout.strip()


before, after = prepared(1), prepared(1000)
print(f"helper multiplies by 1: {before}; by 1000, in a new process: {after}")
raise SystemExit(before != "[1, 2, 3]" or after != before)
EOF
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" "$folder/program.py" "$folder"
