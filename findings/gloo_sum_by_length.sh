#!/usr/bin/env bash
# A gloo sum depends on how long its buffer is
#
# Version: torch 2.14.1; AMD Zen 4, Intel Xeon with AMX
# Belief: all_reduce adds element by element: the first ten sums of a long buffer are those of a short one.
# Seen: With three or four ranks the first ten sums of buffers of 10 and of 100 numbers have other bits: a buffer is cut
#   into as many pieces as there are ranks, and the order of additions is the piece's. A third of the sums are not those in
#   rank order. With two ranks all agree.
# Means: One bucket for all layers is another run than a sum a layer, and an added parameter changes the bits of those
#   before it. Gather and add in rank order.
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


def rank(number, count, file, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}{count}", rank=number, world_size=count)
    mine = torch.randn(1000, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    sums = []
    for length in (10, 100, 1000):
        part = mine[:length].clone()
        dist.all_reduce(part)
        sums.append(part[:10])
    if number == 0:
        results.put([bool((one == sums[0]).all()) for one in sums[1:]])
        results.close()
        results.join_thread()
    dist.destroy_process_group()


if __name__ == "__main__":
    results, same = processes.get_context("spawn").Queue(), {}
    for count in (2, 3, 4):
        processes.spawn(rank, (count, sys.argv[1] + "/meet", results), nprocs=count)
        same[count] = results.get()
        print(f"{count} ranks: first ten sums of 100 and 1,000 numbers are those of 10: {same[count]}")
    raise SystemExit(same != {2: [True, True], 3: [False, False], 4: [False, False]})
EOF
GLOO_SOCKET_IFNAME=lo "$folder/venv/bin/python" -W ignore "$folder/program.py" "$folder"
