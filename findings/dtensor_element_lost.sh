#!/usr/bin/env bash
# A value that is written into a place of a DTensor is lost
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `x[1] = 100` on a sharded DTensor sets that element, or is refused.
# Seen: It runs and changes nothing, on whichever rank the element lies; and so do `x[1].fill_`, `x[0:3].mul_` and
#   `x.narrow(...).add_`, all along the sharded dimension. `x.view(-1).add_`, `masked_fill_` and `x[:, 1].add_` of a matrix
#   sharded by rows change what they should, `x[0:2] = 100` is refused. `fill_(3)` of a tensor whose sum is not yet added
#   (Partial) makes it 6 on two ranks.
# Means: A diverged fitness that is set to the worst one stays, and a mask over a layer's rows does nothing, without a word.
#   Use `torch.where` or `masked_fill_`, and read back.
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
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    changes = {
        "x[1] = 100": lambda x: x.__setitem__(1, 100.0),
        "x[4] = 100": lambda x: x.__setitem__(4, 100.0),
        "x[1].fill_": lambda x: x[1].fill_(100.0),
        "x[0:3].mul_": lambda x: x[0:3].mul_(10.0),
        "x.narrow().add_": lambda x: x.narrow(0, 0, 2).add_(10.0),
        "x.view(-1).add_": lambda x: x.view(-1).add_(10.0),
        "x.masked_fill_": lambda x: x.masked_fill_(x > 2, 100.0),
    }
    seen = {}
    for name, change in changes.items():
        plain, shard = torch.arange(6.0), distribute_tensor(torch.arange(6.0), mesh, [Shard(0)])
        change(plain), change(shard)
        found = shard.full_tensor()
        seen[name] = "unchanged" if torch.equal(found, torch.arange(6.0)) else "right" if torch.equal(found, plain) else "other"
    matrix = distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)])
    matrix[:, 1].add_(1.0)
    seen["x[:, 1].add_"] = "right" if float(matrix.full_tensor().sum()) == 4 else "unchanged"
    seen["fill_(3) of a partial sum"] = float(DTensor.from_local(torch.ones(1), mesh, [Partial()]).fill_(3.0).full_tensor())
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    print(ranks[0])
    raise SystemExit(list(ranks[0].values()) != ["unchanged"] * 5 + ["right"] * 3 + [6.0] or ranks[1] != ranks[0])
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
