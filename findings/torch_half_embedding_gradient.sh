#!/usr/bin/env bash
# In bfloat16 an embedding's gradient counts a token 256 times at most
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: torch adds half precision numbers in float32 and rounds once.
# Seen: A sum, product, `cumsum` and `scatter_add_` of 8,192 ones are 8,192 in bfloat16 and float16. By `index_add_`,
#   `index_put_(accumulate=True)` and `segment_reduce` they are 256 and 2,048, where one more is rounded away; and so is the
#   gradient of `nn.Embedding`, and of `weight[index]`, for a token that occurs 8,192 times. `EmbeddingBag` and a linear layer
#   are right.
# Means: The gradient of a frequent token, or an update summed from noise rows by `index_add_`, is too small by a factor that
#   grows with the batch, on a CPU and with no word. Sum in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn

NUMBER = 8192
seen = {}
for kind in (torch.bfloat16, torch.float16):
    ones, start, places = torch.ones(NUMBER, dtype=kind), torch.zeros(1, dtype=kind), torch.zeros(NUMBER, dtype=torch.long)
    embedding, weight = nn.Embedding(3, 1, dtype=kind), torch.ones(2, dtype=kind, requires_grad=True)
    embedding(places).sum().backward()
    weight[places].sum().backward()
    layer = nn.Linear(1, 1, dtype=kind)
    layer(ones[:, None]).sum().backward()
    sums = {
        "sum": ones.sum(),
        "cumsum": ones.cumsum(0)[-1],
        "scatter_add_": start.clone().scatter_add_(0, places, ones),
        "gradient of a bias": layer.bias.grad,
        "index_add_": start.clone().index_add_(0, places, ones),
        "index_put_": start.clone().index_put_((places,), ones, accumulate=True),
        "segment_reduce": torch.segment_reduce(ones, "sum", lengths=torch.tensor([NUMBER])),
        "gradient of an embedding": embedding.weight.grad[0],
        "gradient of weight[index]": weight.grad[0],
    }
    seen[kind] = [int(value) for value in sums.values()]
    print(kind, dict(zip(sums, seen[kind])))
raise SystemExit(seen != {torch.bfloat16: [NUMBER] * 4 + [256] * 5, torch.float16: [NUMBER] * 4 + [2048] * 5})
EOF
