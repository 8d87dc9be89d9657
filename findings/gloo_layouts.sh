#!/usr/bin/env bash
# torch.distributed over gloo puts a channels_last weight's numbers in other places, and float bits into integers
#
# Version: torch 2.14.1
# Belief: broadcast and all_reduce work on tensors, so on indices: shapes and types are compared, a layout is the library's
#   matter.
# Seen: Memory is sent as it lies. A weight in channels_last on one rank arrives in a contiguous one with its numbers in other
#   places, and a sum of both adds other numbers; a (3, 2) tensor fills a (2, 3) one; the bits of float32 1.0 arrive in an
#   int32 tensor as 1065353216. No word in any case.
# Means: One rank that called .to(memory_format=torch.channels_last), or loaded a checkpoint in that layout, trains another
#   network from the first broadcast on, and the loss stays finite. Call contiguous() first and compare a hash of the
#   parameters.
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


def rank(number, meet, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=number, world_size=2)
    weight = torch.arange(2 * 3 * 2 * 2.0).view(2, 3, 2, 2)
    mine = weight.to(memory_format=torch.channels_last) if number == 0 else torch.zeros_like(weight)
    dist.broadcast(mine, 0)
    total = weight.to(memory_format=torch.channels_last) if number == 0 else weight.clone()
    dist.all_reduce(total)
    shape = torch.arange(6.0).view(3, 2) if number == 0 else torch.zeros(2, 3)
    dist.broadcast(shape, 0)
    kind = torch.ones(2) if number == 0 else torch.zeros(2, dtype=torch.int32)
    dist.broadcast(kind, 0)
    if number == 1:
        right = [float((one == other).float().mean()) for one, other in ((mine, weight), (total, 2 * weight))]
        results.put((right, shape.tolist(), kind.tolist()))
        results.close()
        results.join_thread()
    dist.destroy_process_group()


if __name__ == "__main__":
    results = processes.get_context("spawn").Queue()
    processes.spawn(rank, (sys.argv[1] + "/meet", results), nprocs=2)
    right, shape, kind = results.get()
    print(f"channels_last into contiguous: {right[0]:.0%} of a broadcast and {right[1]:.0%} of a sum in the right places")
    print(f"(3, 2) into (2, 3): {shape}; float32 1.0 into int32: {kind}")
    raise SystemExit(not (max(right) < 0.5 and kind == [1065353216] * 2 and shape == [[0, 1, 2], [3, 4, 5]]))
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
