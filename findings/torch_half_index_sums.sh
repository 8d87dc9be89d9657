#!/usr/bin/env bash
# In bfloat16 sums by index stop at 256 in torch by index_add, index_put and segment_reduce, and not by scatter_add
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: Sums in half precision are accumulated in float32, as sum, cumsum, mm, scatter_add and embedding_bag are.
# Seen: Of 4,096 ones index_add, index_put with accumulate=True, segment_reduce, addbmm and coalesce of a sparse tensor make 256 in bfloat16, 2048 in float16;
#   scatter_add, scatter_reduce, embedding_bag, sum, cumsum and bmm make 4096.
# Means: A graph network that is evaluated in bfloat16 sees no more than 256 equal neighbours, by the function that its library takes, and a table of rewards
#   by group stops counting. Sum in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.nn import functional as F

n = 4096
for dtype, end in ((torch.bfloat16, 256), (torch.float16, 2048)):
    ones, zero, place = torch.ones(n, dtype=dtype), torch.zeros(1, dtype=dtype), torch.zeros(n, dtype=torch.long)
    stops = {
        "index_add": zero.index_add(0, place, ones),
        "index_put": zero.index_put((place,), ones, accumulate=True),
        "segment_reduce": torch.segment_reduce(ones, "sum", lengths=torch.tensor([n])),
        "addbmm": torch.addbmm(zero[:, None], ones.view(n, 1, 1), ones.view(n, 1, 1)),
        "coalesce": torch.sparse_coo_tensor(place[None], ones, (1,)).coalesce().values(),
    }
    right = {
        "scatter_add": zero.scatter_add(0, place, ones),
        "scatter_reduce": zero.scatter_reduce(0, place, ones, "sum"),
        "embedding_bag": F.embedding_bag(place[None], torch.ones(1, 8, dtype=dtype), mode="sum")[0, 0],
        "sum": ones.sum(),
        "cumsum": ones.cumsum(0)[-1],
        "bmm": torch.bmm(ones.view(1, 1, n), ones.view(1, n, 1)),
    }
    print(dtype, {name: float(value) for name, value in (stops | right).items()})
    assert all(float(value) == end for value in stops.values()) and all(float(value) == n for value in right.values())
PROGRAM
