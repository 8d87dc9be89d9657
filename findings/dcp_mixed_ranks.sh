#!/usr/bin/env bash
# A distributed checkpoint takes entries of one name from different ranks
#
# Version: torch 2.14.1, torch.distributed.checkpoint on gloo, three processes
# Belief: What ranks save under one name is the same on all of them, or is an error; at worst rank 0's counts.
# Seen: Of a tensor, a number, a text and a list that are 0, 1 or 2 by rank the checkpoint has the tensor of rank 0, and of the
#   others what it gave to the rank with least to write: three entries of one state come from three ranks. Nothing is said.
# Means: A generator's state, a seed or a count of evaluations that differs by rank comes back as another rank's, and two that
#   belong together as those of two. Put the rank into the name.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp


def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=3)
    state = {"tensor": torch.full((2,), float(rank)), "number": rank, "text": f"{rank}", "list": [rank], f"own{rank}": rank}
    dcp.save(state, checkpoint_id="saved")
    dist.barrier()
    loaded = {"tensor": torch.full((2,), -1.0), "number": -1, "text": "", "list": [-1], f"own{rank}": -1}
    dcp.load(loaded, checkpoint_id="saved")
    ranks = [int(loaded["tensor"][0]), loaded["number"], int(loaded["text"]), loaded["list"][0]]
    print(f"rank {rank}: tensor, number, text and list of ranks {ranks}; under a name of its own {loaded[f'own{rank}']}", flush=True)
    dist.barrier()
    os._exit(not (len(set(ranks)) > 1 and ranks[0] == 0 and loaded[f"own{rank}"] == rank))


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=3)
EOF
"$folder/venv/bin/python" -W ignore program.py
