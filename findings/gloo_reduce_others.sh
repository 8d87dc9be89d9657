#!/usr/bin/env bash
# A gloo reduce to rank 0 leaves partial sums in the tensors of the other ranks
#
# Version: torch 2.14.1, gloo, three processes
# Belief: `dist.reduce(fitness, dst=0)` sums into rank 0's tensor; the others keep theirs.
# Seen: Ranks with 1, 2 and 3 have 6 on rank 0, and on ranks 1 and 2 mixtures of 3, 4, 5 and 6, by the place in the tensor and its
#   length; none has its own number everywhere.
# Means: A rank that goes on with its own fitnesses (for its archive, its best member or a log) has those of several ranks added
#   up. Reduce a clone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=3)
    holds = True
    for length in (3, 100_000):
        fitness = torch.full((length,), rank + 1.0)
        dist.reduce(fitness, dst=0)
        values = fitness.unique().tolist()
        print(f"rank {rank}, {length} numbers of {rank + 1}: {values} after the reduce", flush=True)
        holds &= values == [6] if rank == 0 else values != [rank + 1.0]
    dist.barrier()
    dist.destroy_process_group()
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=3)
EOF
"$folder/venv/bin/python" -W ignore program.py
