#!/usr/bin/env bash
# Flushing of subnormal numbers holds for a part of a tensor, and for numpy
#
# Version: torch 2.14.1, numpy 2.4.6 (x86-64, 2 threads)
# Belief: After torch.set_flush_denormal(True) torch makes subnormal numbers 0, and it alone.
# Seen: The setting is one thread's. torch's workers have what the calling thread had when they started: with two threads the second half of a large
#   tensor keeps its subnormals where torch had computed on both before the call, loses them where it had not, and still loses them after
#   set_flush_denormal(False). numpy flushes in that thread too, and so do Python threads that start later.
# Means: The log of a small probability, exp(-90), is minus infinity in some rows and -90 in others, by their place, the number of threads and what ran
#   before: a member's loss is infinite or not by that. Set it before anything else and for good, or leave it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import sys
import threading

import numpy as np
import torch


def lost():
    """Return the share of infinite losses in each half of a softmax."""
    probabilities = torch.softmax(torch.tensor([0.0, -90.0]).repeat(200_000, 1), -1)[:, 1]
    return [float(half.log().isinf().float().mean()) for half in probabilities.chunk(2)]


def numpy_product():
    return float((np.full(4, 1e-40, np.float32) * np.float32(1.5))[0])


torch.set_num_threads(2)
worked = sys.argv[1] == "worked"
if worked:
    assert lost() == [0, 0] and numpy_product() > 0
assert torch.set_flush_denormal(True)
flushed, inside, later = lost(), numpy_product(), []
thread = threading.Thread(target=lambda: later.append(numpy_product()))
thread.start()
thread.join()
torch.set_flush_denormal(False)
back = lost()
print(f"threads had worked: {worked}. Infinite losses in the halves of a tensor: {flushed}, after the setting is taken back: {back}")
print("1.5e-40 in numpy in this thread, in a later one, and after the setting is taken back:", inside, later[0], numpy_product())
assert (flushed, back) == (([1, 0], [0, 0]) if worked else ([1, 1], [0, 1]))
assert inside == later[0] == 0 and numpy_product() > 0
PROGRAM
for before in worked idle; do
    OMP_NUM_THREADS=2 "$folder/venv/bin/python" -W ignore program.py $before
done
