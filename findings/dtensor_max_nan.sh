#!/usr/bin/env bash
# The maximum of a sharded fitness is one rank's, where another rank has a NaN
#
# Version: torch 2.14.1 (gloo), numpy 2.4.6
# Belief: `max()` of a DTensor is that of the full tensor: NaN if one fitness is.
# Seen: Of the fitnesses 1, 2, 3, 4 over two ranks with NaN for the third or the fourth one `max()`, `amax()` and `aminmax()`
#   are 2, and the infinity norm is 2: the NaN is lost, and the 4 or 3 of its rank with it. With NaN for the first or second
#   it is NaN. `max(0)`, with an index, is NaN in all cases, and so are `sum` and `norm`.
# Means: A diverged member hides the best one of its rank, or is seen, by where it lies. Look by `isfinite().all()`, which is
#   right.
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


def rank(number, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=number, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    seen = {}
    for place in range(4):
        fitness = torch.tensor([1.0, 2.0, 3.0, 4.0])
        fitness[place] = torch.nan
        shard = distribute_tensor(fitness, mesh, [Shard(0)])
        values = shard.max(), shard.amax(0), torch.aminmax(shard)[1], shard.norm(torch.inf), shard.max(0)[0], shard.sum()
        finite = bool(shard.isfinite().all().full_tensor())
        seen[place] = [str(float(value.full_tensor())) for value in values] + [finite]
    results.put((number, seen))
    results.close()
    results.join_thread()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2, join=False)
    ranks = dict(results.get() for _ in range(2))
    for place, values in ranks[0].items():
        print(f"NaN at {place}: max, amax, aminmax, infinity norm, max(0), sum, all finite:", *values)
    first, second = ["nan"] * 6 + [False], ["2.0"] * 4 + ["nan"] * 2 + [False]
    raise SystemExit(ranks[0] != {0: first, 1: first, 2: second, 3: second} or ranks[1] != ranks[0])
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
