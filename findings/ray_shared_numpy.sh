#!/usr/bin/env bash
# A Ray task that adds noise to its numpy argument through torch changes it for every other task
#
# Version: ray 2.60.0, torch 2.14.1, numpy 2.4.6
# Belief: An object in Ray's store cannot be changed: numpy arrays from it are read-only, and each task has its argument as it was put.
# Seen: numpy refuses a write, but `torch.from_numpy` of the array shares its memory with a warning at most. Six tasks that each add
#   one to their argument see 1, 2, 3, 4, 5 and 6, in any order, for 10 numbers as for 100,000, and later readers 6. A torch tensor that is
#   put into the store comes out as a copy: each task sees 1.
# Means: Members that add their noise in place to a shared vector of parameters sum up all noise before them, in the order of the
#   workers; with one member at a time, or in a test, all is right. Clone it, or put tensors.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ray==2.60.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/tasks.py" <<'EOF'
import numpy as np
import ray
import torch

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)


@ray.remote
def add_one(parameters):
    parameters = torch.from_numpy(parameters) if isinstance(parameters, np.ndarray) else parameters
    return float(parameters.add_(1.0)[0])


@ray.remote
def write(parameters):
    try:
        parameters += 1.0
    except ValueError:
        return "refused"


@ray.remote
def read(parameters):
    return float(parameters[0])


holds = ray.get(write.remote(ray.put(np.zeros(10)))) == "refused"
for length in (10, 100_000):
    for kind, zeros in (("numpy", np.zeros(length)), ("torch", torch.zeros(length))):
        shared = ray.put(zeros)
        seen, after = sorted(ray.get([add_one.remote(shared) for _ in range(6)])), ray.get(read.remote(shared))
        print(f"{length} numbers of {kind}: six tasks see {seen}, a later reader {after}")
        holds &= seen == ([1, 2, 3, 4, 5, 6] if kind == "numpy" else [1] * 6) and after == (6 if kind == "numpy" else 0)
ray.shutdown()
raise SystemExit(not holds)
EOF
RAY_AUTH_MODE=disabled RAY_DEDUP_LOGS=0 timeout 300 "$folder/venv/bin/python" -W ignore "$folder/tasks.py"
