#!/usr/bin/env bash
# A gloo scatter of columns sends other numbers, without a word
#
# Version: torch 2.14.1, gloo, three processes
# Belief: `dist.scatter` sends each rank its tensor of the list, or refuses one that is not contiguous, as `send` does.
# Seen: Columns of a population are read as if they were contiguous: ranks that should have [0, 4, 8], [1, 5, 9] and [2, 6, 10]
#   have [0, 1, 2], [1, 2, 3] and [2, 3, 4]. Column views are right in `gather` and `all_gather`; other collectives: `gloo_columns`.
# Means: Members that are columns are evaluated as mixtures of members, while the update takes them for what they were. Scatter
#   `column.contiguous()`, or keep members in rows.
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
    population = torch.arange(12.0).reshape(3, 4)  # a member a column
    seen = []
    for contiguous in (False, True):
        mine = torch.empty(3)
        columns = [population[:, i].contiguous() if contiguous else population[:, i] for i in range(3)]
        dist.scatter(mine, columns if rank == 0 else None, src=0)
        seen.append(mine.tolist())
    gathered = [torch.empty(3) for _ in range(3)]
    dist.all_gather(gathered, population[:, rank])
    right = all(torch.equal(one, population[:, i]) for i, one in enumerate(gathered))
    print(f"rank {rank} should have {population[:, rank].tolist()}: scatter {seen[0]}, contiguous {seen[1]}; all_gather right: {right}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    if not (right and seen[1] == population[:, rank].tolist() and seen[0] == [rank, rank + 1, rank + 2]):
        sys.exit(1)


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=3)
EOF
"$folder/venv/bin/python" -W ignore program.py
