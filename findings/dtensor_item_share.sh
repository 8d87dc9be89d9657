#!/usr/bin/env bash
# `.item()` of a sum, a mean, a norm or a maximum of a sharded tensor is one rank's share
#
# Version: torch 2.14.1, DTensor on gloo, two processes
# Belief: `x.sum()` of a DTensor is the sum over all shards, and `.item()` gives it as a Python number; to print it is to know it.
# Seen: The numbers 1 to 10, sharded over two ranks, have a sum of 15 and of 40, a mean of 3 and of 8, a norm of 7.4 and of 18.2, a
#   maximum of 5 and of 10, by `.item()` as by `float()`: the result is a partial one that the conversion does not reduce.
#   `full_tensor().item()` is right, `var`, `std` and `argmax` are right at once, and so is `.item()` of a norm that was squared, which
#   reduces.
# Means: A norm of weights, a penalty or a loss that is logged, compared or used as a Python number under FSDP2 or tensor parallelism
#   is a part of it, and ranks that decide by it part. `full_tensor()` first.
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
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

MEASURES = {
    "sum": lambda t: t.sum(),
    "mean": lambda t: t.mean(),
    "norm": lambda t: t.norm(),
    "max": lambda t: t.max(),
    "product": lambda t: t.prod(),
    "nonzero": lambda t: t.count_nonzero(),
    "var": lambda t: t.var(),
    "argmax": lambda t: t.argmax(),
    "norm squared": lambda t: t.norm() ** 2,
}


def work(rank, place):
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
    numbers = torch.arange(1.0, 11.0)
    shards = distribute_tensor(numbers, init_device_mesh("cpu", (2,)), [Shard(0)])
    kinds = {}
    for name, measure in MEASURES.items():
        got, whole = measure(shards).item(), measure(shards).full_tensor().item()
        assert float(measure(shards)) == got and abs(whole - measure(numbers).item()) <= 1e-5 * abs(whole)
        both = [None, None]
        dist.all_gather_object(both, round(got, 3))
        kinds[name] = both, round(whole, 3)
    if rank == 0:
        for name, (both, whole) in kinds.items():
            print(f"{name}: .item() of the two ranks {both}, of the full tensor {whole}")
    right = {name for name, (both, whole) in kinds.items() if both == [whole, whole]}
    dist.barrier()
    os._exit(not (right == {"var", "argmax", "norm squared"} and kinds["sum"][0] == [15.0, 40.0]))


if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("store"),), nprocs=2)
EOF
"$folder/venv/bin/python" -W ignore program.py
