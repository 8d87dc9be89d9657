#!/usr/bin/env bash
# A mean squared error over uneven shards is not the mean
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A loss of two DTensors is that of the full tensors.
# Seen: For five numbers on two ranks, three and two, `F.mse_loss`, `smooth_l1_loss`, `huber_loss`, both binary cross
#   entropies and `soft_margin_loss` give the mean of the two ranks' means: an mse of 5.82 where 4.89 is right, with gradients
#   up to 3.4 times as long. `x.mean()`, `l1_loss`, `cross_entropy` and `mse_loss(reduction="none").mean()` are right, and of
#   four numbers all are.
# Means: A last batch that the ranks do not divide is scored by other weights, and the loss of a run depends on the number of
#   ranks. Take `reduction="none"` and a mean.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn import functional as F


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    losses = {
        "mse_loss": F.mse_loss,
        "smooth_l1_loss": F.smooth_l1_loss,
        "huber_loss": F.huber_loss,
        "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
        "soft_margin_loss": F.soft_margin_loss,
        "l1_loss": F.l1_loss,
        "mse_loss, then mean": lambda x, y: F.mse_loss(x, y, reduction="none").mean(),
    }
    seen = {}
    for length in (4, 5):
        x, y = torch.arange(float(length)), torch.full((length,), 0.3)
        for name, loss in losses.items():
            found = loss(*(distribute_tensor(one, mesh, [Shard(0)]) for one in (x, y))).full_tensor()
            seen[length, name] = float(found), float(loss(x, y))
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    right = {key: abs(found - exact) < 1e-5 for key, (found, exact) in ranks[0].items()}
    for key, values in ranks[0].items():
        print(*key, "sharded and right:", *values)
    raise SystemExit(list(right.values()) != [True] * 7 + [False] * 5 + [True] * 2)
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
