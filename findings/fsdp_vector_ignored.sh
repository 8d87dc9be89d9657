#!/usr/bin/env bash
# A vector of weights that is set into an FSDP2 module changes nothing
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `vector_to_parameters` sets the weights of any module, or refuses one that is sharded.
# Seen: After `fully_shard` on two ranks it runs without a word, for the full vector on each rank: the parameters then show
#   the new numbers as their `data`, and the module's output is the old one to the last bit. `add_` on the parameters, and on
#   their local parts, does change the output. `parameters_to_vector` is refused where a layer has rows that the ranks do not
#   divide.
# Means: Every member of a population has the centre's fitness, so that all directions tie. Write into the local parts, or
#   evaluate members by `functional_call` on an unsharded module.
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
from torch.nn.utils import vector_to_parameters


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    mesh, inputs = init_device_mesh("cpu", (2,)), torch.ones(1, 3)


    def build(sharded):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        if sharded:
            for part in (module[0], module[2], module):
                fully_shard(part, mesh=mesh)
        return module


    plain, shard, moved = build(False), build(True), build(True)
    vector = torch.linspace(-1, 1, sum(parameter.numel() for parameter in plain.parameters()))
    start = shard(inputs).detach()
    vector_to_parameters(vector, plain.parameters())
    vector_to_parameters(vector, shard.parameters())
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.to_local().add_(0.5)
    outputs = [module(inputs).detach() for module in (plain, shard, moved)]
    seen = [torch.allclose(outputs[0], start), torch.equal(outputs[1], start), torch.allclose(outputs[2], start)]
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    print("output is the old one: plain module, FSDP2 module, FSDP2 module with local parts changed:", ranks)
    raise SystemExit(ranks != {number: [False, True, False] for number in range(2)})
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
