#!/usr/bin/env bash
# A newcomer's path in a fresh environment: install, train, interrupt, resume, sweep, report, evaluate, load in Python.
#
#   scripts/newcomer.sh [FOLDER]      # default: a folder in TMPDIR; it must not exist yet
#
# Prints each command with a $ before it and what it says: the transcript. PYTHON (python3) makes the environment. The folder is
# left; it has the environment (some GB) and the runs.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$(mktemp -u "${TMPDIR:-/tmp}/newcomer-XXXXXX")}
mkdir "$folder"
cd "$folder"

say() { printf '\n$ %s\n' "$*"; }
step() {
  say "$@"
  local begun=$SECONDS
  "$@"
  echo "[$((SECONDS - begun)) s]"
}

step "${PYTHON:-python3}" -m venv venv
step venv/bin/pip install --quiet "$checkout[all]"
export PATH="$folder/venv/bin:$PATH"
step neuro doctor
step neuro train --cfg job

# Ctrl-C in the middle of a run: it ends its generation, writes a checkpoint and says how to go on
say neuro train hydra.run.dir=outputs/first generations=400 '   # then Ctrl-C'
python - << 'PROGRAM'
import pathlib, signal, subprocess, sys, time

command = ["neuro", "train", "hydra.run.dir=outputs/first", "generations=400"]
# a background job of a script would ignore Ctrl-C, so Python starts it
run = subprocess.Popen(command)
rows = pathlib.Path("outputs/first/metrics.csv")
deadline = time.monotonic() + 300
while run.poll() is None and time.monotonic() < deadline and not (rows.exists() and rows.read_bytes().count(b"\n") > 30):
    time.sleep(0.1)
run.send_signal(signal.SIGINT)
code = run.wait(120)
made = rows.read_bytes().count(b"\n") - 1
print(f"[interrupted after {made} of 400 generations, exit code {code}]")
sys.exit(code or made >= 400)
PROGRAM
step neuro resume outputs/first
step neuro train -m algo=openai_es,snes seed=1,2 generations=50 hydra.sweep.dir=outputs/sweep
step neuro report outputs/sweep
step neuro evaluate outputs/first
step mpiexec -n 2 neuro train generations=50 hydra.run.dir=outputs/ranks

say python -c "'from neuro_cli import load; ...'"
python -c '
from neuro_cli import load

model = load("outputs/first")
print(type(model).__name__, sum(parameter.numel() for parameter in model.parameters()), "parameters, training:", model.training)
'
python - << 'PROGRAM'
import csv, json

summary = json.load(open("outputs/first/summary.json"))
rows = list(csv.DictReader(open("outputs/first/metrics.csv")))
assert [int(row["generation"]) for row in rows] == list(range(1, 401)), "a generation is missing or there twice"
assert summary["generations"] == 400 and summary["test_accuracy"] > 0.9, summary
print(f"[all steps done: test accuracy {summary['test_accuracy']:.4f} after 400 generations in {summary['wall_seconds']:.0f} s]")
PROGRAM
