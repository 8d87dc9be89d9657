#!/usr/bin/env bash
# submitit's debug jobs run when their result is asked for, on what the arguments are by then
#
# Version: submitit 1.5.4, numpy 2.4.6
# Belief: The debug executor is the local one without a process: submit takes the arguments as they are and runs the job.
# Seen: Nothing runs until result() or done(), and arguments are not copied. Three jobs over one array, changed in place
#   between submits, give 0, 3, 6 with the local executor and 6, 6, 6 with debug. Jobs that draw random numbers give them in
#   the order in which results are asked for.
# Means: A population whose members are written into one buffer and submitted in turns has a flat fitness under debug, or a
#   right one there and a wrong one elsewhere. Submit copies, and test with the local executor.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet submitit==1.5.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" - <<'EOF'
import random
import tempfile

import numpy as np
import submitit


def sums(cluster):
    executor = submitit.AutoExecutor(folder=tempfile.mkdtemp(dir="."), cluster=cluster)
    executor.update_parameters(timeout_min=2)
    buffer, jobs = np.zeros(3), []
    for member in range(3):
        buffer[:] = member
        jobs.append(executor.submit(np.sum, buffer))
    return [float(job.result()) for job in jobs]


def draws(order):
    random.seed(0)
    executor = submitit.AutoExecutor(folder=tempfile.mkdtemp(dir="."), cluster="debug")
    jobs = [executor.submit(random.random) for _ in range(3)]
    return {member: round(jobs[member].result(), 3) for member in order}


local, debug = sums("local"), sums("debug")
print(f"sums of three members of one buffer: local {local}, debug {debug}")
forward, backward = draws((0, 1, 2)), draws((2, 1, 0))
print(f"draws of three debug jobs, asked forward {forward}, backward {backward}")
raise SystemExit(local != [0.0, 3.0, 6.0] or debug != [6.0] * 3 or forward[0] != backward[2] or forward == backward)
EOF
