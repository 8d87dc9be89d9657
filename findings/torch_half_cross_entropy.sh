#!/usr/bin/env bash
# In float16 the mean cross entropy of ten thousand examples is infinite, and other means are infinite or too small
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: A mean in float16 is summed in float32, as mean() and the mean squared error are, so it is right wherever the result is a float16 number.
# Seen: cross_entropy and nll_loss add up in float16: the mean of 10,000 losses of 6.91 is infinite, that of 4,000 is 6.88; with label smoothing, with soft
#   targets and for images too. kl_div is infinite by batchmean, and right by mean. embedding_bag and scatter_reduce have an infinite mean of numbers near
#   9, and segment_reduce 3.3. In bfloat16 the cross entropy is right.
# Means: A network with a thousand classes has no fitness from a batch of 9,500 tokens on, all members tie at infinity, and a smaller batch hides it. A bag
#   of tokens is another vector by its length. Use reduction="none" and mean(), or float32 logits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.nn import functional as F

n = 10_000
logits, classes = torch.zeros(n, 1000, dtype=torch.float16), torch.zeros(n, dtype=torch.long)
loss = {
    "10,000 rows": F.cross_entropy(logits, classes),
    "4,000 rows": F.cross_entropy(logits[:4000], classes[:4000]),
    "smoothed": F.cross_entropy(logits, classes, label_smoothing=0.1),
    "bfloat16": F.cross_entropy(logits.bfloat16(), classes),
    "none, then mean": F.cross_entropy(logits, classes, reduction="none").mean(),
}
print("cross entropy of a thousand equal classes, 6.9078:", {name: round(float(value), 3) for name, value in loss.items()})
nine = torch.full((n,), 9.0, dtype=torch.float16)
zeros, log = torch.zeros_like(nine), -nine[:, None]
pair = torch.stack([-nine, nine], 1)
means = {
    "mean": nine.mean(),
    "l1": F.l1_loss(nine, zeros),
    "avg_pool": F.avg_pool1d(nine[None], n),
    "kl mean": F.kl_div(log, torch.ones_like(log)),
    "kl batchmean": F.kl_div(log, torch.ones_like(log), reduction="batchmean"),
    "nll of an image": F.nll_loss(-nine.view(1, 1, 100, 100), torch.zeros(1, 100, 100, dtype=torch.long)),
    "embedding_bag": F.embedding_bag(classes[None], nine[:8].view(1, 8), mode="mean")[0, 0],
    "scatter_reduce": zeros[:1].scatter_reduce(0, classes, nine, "mean", include_self=False),
    "segment_reduce": torch.segment_reduce(nine, "mean", lengths=torch.tensor([n])),
}
means = {name: float(value) for name, value in means.items()}
print("means of 10,000 nines:", {name: round(value, 2) for name, value in means.items()})
print("soft targets of a loss of 18:", float(F.cross_entropy(pair, torch.tensor([1.0, 0.0]).half().expand(n, 2))))
infinite = {name for name, value in loss.items() if value.isinf()}
assert infinite == {"10,000 rows", "smoothed"}
assert {name for name, value in means.items() if value == float("inf")} == {"kl batchmean", "nll of an image", "embedding_bag", "scatter_reduce"}
assert 3 < means["segment_reduce"] < 4 and means["mean"] == means["l1"] == means["kl mean"] == means["avg_pool"] == 9
assert F.cross_entropy(pair, torch.tensor([1.0, 0.0]).half().expand(n, 2)).isinf()
PROGRAM
