#!/usr/bin/env bash
# A Ray task has the torch threads of the first task of its worker, not those of its own num_cpus
#
# Version: ray 2.60.0, torch 2.13.0, numpy 2.4.6
# Belief: Ray sets OMP_NUM_THREADS to a task's num_cpus, so a task with one CPU computes with one thread and one with two with two.
# Seen: Ray sets the variable for each task, torch reads it once, when it is imported, and the worker serves the next task too.
#   After a task of two CPUs one of one CPU has OMP_NUM_THREADS=1 and two threads; in the other order two CPUs have one thread.
# Means: A member's thread count, its speed, and bits that depend on threads are those of what ran there before. Call
#   torch.set_num_threads at the beginning of each task.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ray==2.60.0 torch==2.13.0 numpy==2.4.6
cd "$folder"
unset OMP_NUM_THREADS MKL_NUM_THREADS
export HOME="$folder" RAY_ADDRESS=local
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import os

import ray


def threads():
    import torch

    return os.getpid(), int(os.environ["OMP_NUM_THREADS"]), torch.get_num_threads()


wrong = []
for order in ((2, 1), (1, 2)):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    first, second = (ray.get(ray.remote(threads).options(num_cpus=cpus).remote()) for cpus in order)
    print("num_cpus", order, "worker, OMP_NUM_THREADS, threads of torch:", first, second)
    wrong.append(second[0] == first[0] and second[1:] == (order[1], order[0]))
    ray.shutdown()
raise SystemExit(not all(wrong))
PROGRAM
