#!/usr/bin/env bash
# A tensor in a torch.multiprocessing queue changes with the sender's one
#
# Version: torch 2.14.1
# Belief: `queue.put(centre)` sends the numbers of now, as a queue of Python's multiprocessing does with an array.
# Seen: The tensor is moved to shared memory and its address is sent. Of a centre that is put as 1, 2 and 3 the worker finds 3
#   three times if it looks afterwards, also for a row of a population; a numpy array is 1, 2 and 3.
# Means: A centre that is perturbed in place for each member, or updated while workers are behind, is evaluated as it is later:
#   all members are the last one. Put a clone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import numpy as np
import torch
import torch.multiprocessing as mp


def work(tasks, results, start):
    start.wait()
    for _ in range(9):
        results.put(float(tasks.get()[0]))


if __name__ == "__main__":
    context = mp.get_context("spawn")
    tasks, results, start = context.Queue(), context.Queue(), context.Event()
    worker = context.Process(target=work, args=(tasks, results, start))
    worker.start()
    centre, array, copied = torch.zeros(1000), np.zeros(1000), torch.zeros(1000)
    for _ in range(3):
        centre += 1
        array += 1
        copied += 1
        for one in (centre, array.copy(), copied.clone()):
            tasks.put(one)
    import time

    time.sleep(2)  # until the queue's thread has sent all
    start.set()
    seen = [results.get(timeout=120) for _ in range(9)]
    worker.join()
    print("put as 1, 2, 3: a tensor arrives as", seen[0::3], "| an array as", seen[1::3], "| a clone as", seen[2::3])
    raise SystemExit((seen[0::3], seen[1::3], seen[2::3]) != ([3, 3, 3], [1, 2, 3], [1, 2, 3]))
EOF
"$folder/venv/bin/python" -W ignore program.py
