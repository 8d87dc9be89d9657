#!/usr/bin/env bash
# A Lightning Trainer starts MPI wherever mpi4py is installed
#
# Version: lightning 2.6.6, mpi4py 4.1.2, mpich 5.0.2, torch 2.14.1
# Belief: Lightning uses MPI for no strategy of its own, so a Trainer on one CPU does not touch it.
# Seen: Creating a Trainer looks for a cluster and imports mpi4py.MPI, which initialises MPI in this process. Where mpi4py
#   is installed without an MPI library the Trainer cannot be created: RuntimeError, cannot load MPI library.
# Means: Data workers that are forked afterwards live in an initialised MPI, a start under mpiexec joins the world by the
#   import alone, and an environment with mpi4py for another tool breaks plain training.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lightning==2.6.6 mpi4py==4.1.2 mpich==5.0.2 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import sys

import lightning

before = "mpi4py.MPI" in sys.modules
lightning.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
after = "mpi4py.MPI" in sys.modules and sys.modules["mpi4py.MPI"].Is_initialized()
print(f"MPI before the Trainer {before}, initialised after it {after}")
raise SystemExit(before or not after)
EOF
