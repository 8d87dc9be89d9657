#!/usr/bin/env bash
# A gloo all_reduce of a column adds up a row, and other collectives write beside their columns, without a word
#
# Version: torch 2.14.1, gloo, three processes
# Belief: A collective of torch.distributed works on the tensor that it is given, or refuses one that is not contiguous, as `send`,
#   `recv` and the input of `all_to_all_single` do.
# Seen: `all_reduce` of the first column of [[0, 1], [2, 3]] gives [[0, 3], [2, 3]] in place of [[0, 1], [6, 3]]: the first row is
#   added up; `reduce` does the same. `broadcast` into a column, `scatter` into one, `reduce_scatter` of a
#   list into one and `all_to_all_single` into a transposed matrix put numbers in other places. `gather`, `all_gather`, `all_to_all`,
#   `all_gather_into_tensor`, `reduce_scatter_tensor` and `all_reduce_coalesced` are right.
# Means: Sums over ranks of a view (one statistic of a table, one head's weights) are other numbers, and their neighbours change. Hand
#   over contiguous tensors, and copy them back. neuro does so.
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
    seen = {}

    table = torch.arange(4.0).reshape(2, 2)
    dist.all_reduce(table[:, 0])
    seen["all_reduce"] = table.tolist(), [[0, 1], [6, 3]]

    table = torch.arange(4.0).reshape(2, 2)
    dist.reduce(table[:, 0], 0)
    if rank == 0:  # the others' buffers are undefined
        seen["reduce"] = table.tolist(), [[0, 1], [6, 3]]

    table = torch.arange(4.0).reshape(2, 2)
    dist.all_reduce_coalesced([table[:, 0]])
    seen["all_reduce_coalesced"] = table.tolist(), [[0, 1], [6, 3]]

    table = torch.full((3, 2), -1.0)
    table[:, 1] = torch.arange(3.0) + 10 * rank
    dist.broadcast(table[:, 1], 0)
    seen["broadcast"] = table.tolist(), [[-1, 0], [-1, 1], [-1, 2]]

    table = torch.full((3, 3), -1.0)
    dist.scatter(table[:, 1], [torch.arange(3.0) + 10 * i for i in range(3)] if rank == 0 else None, src=0)
    seen["scatter"] = table.tolist(), [[-1, 10 * rank + i, -1] for i in range(3)]

    table = torch.full((2, 3), -1.0)
    dist.reduce_scatter(table[:, 1], [torch.tensor([i, i + 3.0]) for i in range(3)])
    seen["reduce_scatter"] = table.tolist(), [[-1, 3 * rank, -1], [-1, 3 * rank + 9, -1]]

    table = torch.full((2, 3), -1.0)
    dist.reduce_scatter_tensor(table[:, 1], torch.arange(6.0))
    seen["reduce_scatter_tensor"] = table.tolist(), [[-1, 6 * rank, -1], [-1, 6 * rank + 3, -1]]

    table = torch.full((2, 3), -1.0).t()
    dist.all_to_all_single(table, torch.arange(6.0).reshape(3, 2) + 10 * rank)
    seen["all_to_all_single"] = table.tolist(), [[10 * i + 2 * rank, 10 * i + 2 * rank + 1] for i in range(3)]

    table = torch.full((3, 3), -1.0)
    dist.all_gather([table[:, i] for i in range(3)], torch.arange(3.0) + 10 * rank)
    seen["all_gather"] = table.tolist(), [[i, 10 + i, 20 + i] for i in range(3)]

    wrong = sorted(name for name, (got, right) in seen.items() if got != right)
    for name, (got, right) in seen.items():
        if rank == (name != "reduce"):
            print(f"{name} on rank {rank}: {got}, should be {right}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    kept = ["all_reduce", "all_to_all_single", "reduce_scatter", "scatter"]
    if wrong != sorted([*kept, "broadcast" if rank else "reduce"]):  # the source of a broadcast keeps its own
        sys.exit(1)


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=3)
EOF
"$folder/venv/bin/python" -W ignore program.py
