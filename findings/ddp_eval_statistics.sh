#!/usr/bin/env bash
# An evaluation under DDP uses rank 0's batch-norm statistics on every rank
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: DDP exchanges gradients in the backward pass; in `eval()` and under `no_grad` each rank evaluates its own module.
# Seen: Buffers are broadcast from rank 0 at the beginning of each forward pass, in `eval()` and under `no_grad` too. Two
#   ranks with running means of 1 and 11: after one evaluation both have 1, and both outputs are rank 0's. Parameters are not
#   sent: weights that each rank set for its member stay. By `ddp.module(x)`, or with `broadcast_buffers=False`, each rank has
#   its own.
# Means: Ranks that evaluate members of their own evaluate their weights with another member's statistics, and lose their own.
#   Evaluate `ddp.module`.
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
from torch import nn


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    seen = {}
    for name in ("ddp(x)", "ddp.module(x)", "broadcast_buffers=False"):
        module = nn.Sequential(nn.BatchNorm1d(2))
        ddp = nn.parallel.DistributedDataParallel(module, broadcast_buffers=name != "broadcast_buffers=False").eval()
        with torch.no_grad():
            module[0].running_mean.fill_(1.0 + 10 * number)
            module[0].bias.fill_(float(number))
            called = ddp.module if name == "ddp.module(x)" else ddp
            output = called(torch.zeros(1, 2))[0, 0]
        seen[name] = float(module[0].running_mean[0]), float(module[0].bias[0]), round(float(output), 3)
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    print("running mean, bias and output of ranks 0 and 1:")
    for name in ranks[0]:
        print(name, ranks[0][name], ranks[1][name])
    own = [(1.0, 0.0, -1.0), (11.0, 1.0, -10.0)]
    found = {name: [ranks[0][name], ranks[1][name]] for name in ranks[0]}
    shared = [own[0], (1.0, 1.0, 0.0)]
    raise SystemExit(found != {"ddp(x)": shared, "ddp.module(x)": own, "broadcast_buffers=False": own})
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
