#!/usr/bin/env bash
# On a CPU the shards of a DTensor have the same noise, and its replicas another one each
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A DTensor's random numbers are those of one tensor, cut into shards: `manual_seed` with one seed on all ranks gives
#   each shard its own, and replicas agree whatever the ranks drew before.
# Seen: On a mesh of CPUs each rank draws its local part from its own global generator. With one seed on two ranks
#   `randn_like`, `normal_`, `bernoulli` and dropout repeat the first half as the second one, also for the weights of an FSDP2
#   module. With a seed for each rank shards differ, and so do the copies of a replicated tensor, which are one tensor by
#   name.
# Means: Noise on a sharded network repeats with the number of ranks, so that a direction has half of its dimensions, and
#   initial weights are equal in pairs. With other seeds replicas part without a word. Draw the full tensor by one generator
#   and distribute it.
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn import functional as F


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    module = nn.Linear(3, 4)
    fully_shard(module, mesh=mesh)
    shard = distribute_tensor(torch.zeros(8), mesh, [Shard(0)])
    draws = {
        "randn_like": lambda: torch.randn_like(shard),
        "normal_": lambda: nn.init.normal_(shard.clone()),
        "bernoulli": lambda: torch.bernoulli(torch.full_like(shard, 0.5)),
        "dropout": lambda: F.dropout(torch.ones_like(shard)),
        "weight of FSDP2": lambda: torch.randn_like(module.weight.detach()),
    }
    seen = {}
    for seeds in ("one seed", "a seed for each rank"):
        for name, draw in draws.items():
            torch.manual_seed(number if seeds != "one seed" else 0)
            halves = draw().full_tensor().chunk(2)
            seen[seeds, name] = bool((halves[0] == halves[1]).all())
    torch.manual_seed(number)
    seen["replica"] = torch.randn_like(distribute_tensor(torch.zeros(4), mesh, [Replicate()])).to_local().tolist()
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    alike = {key: value for key, value in ranks[0].items() if key != "replica"}
    same = ranks[0]["replica"] == ranks[1]["replica"]
    for key, value in alike.items():
        print(*key, "both halves are the same:", value)
    print("replicas after other seeds are the same:", same)
    one = [value for (seeds, _), value in alike.items() if seeds == "one seed"]
    raise SystemExit(one != [True] * 5 or alike["a seed for each rank", "randn_like"] or same)
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
