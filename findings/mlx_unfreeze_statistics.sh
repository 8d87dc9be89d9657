#!/usr/bin/env bash
# After unfreeze MLX trains the running statistics of batch norm
#
# Version: mlx 0.32.4
# Belief: Running means and variances are not parameters, so neither an optimizer nor noise moves them.
# Seen: `parameters()` of an MLX network has `running_mean` and `running_var`; `trainable_parameters()` has not, as the layer
#   freezes them when it is made. After `network.freeze()` and `network.unfreeze()`, as one does to train a head first, it has
#   them too, though `unfreeze()` of the layer itself leaves them out. Noise of 0.5 on `parameters()` makes variances
#   negative, and outputs NaN.
# Means: An evolution strategy over `parameters()` throws good members out as diverged, and after an unfreeze weight decay
#   shrinks the variances. Take `trainable_parameters()`, and unfreeze layer by layer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map

mx.set_default_device(mx.cpu)
mx.random.seed(0)
statistics = lambda parameters: sorted(name.split(".")[-1] for name, _ in tree_flatten(parameters) if "running" in name)
network = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm(64))
seen = {"parameters": statistics(network.parameters()), "trainable": statistics(network.trainable_parameters())}
network.freeze()
network.unfreeze()
seen["trainable after unfreeze of the network"] = statistics(network.trainable_parameters())
network.freeze()
for layer in network.layers:
    layer.unfreeze()
seen["trainable after unfreeze of each layer"] = statistics(network.trainable_parameters())
for name, names in seen.items():
    print(name, names)
network.eval()
network.update(tree_map(lambda weight: weight + 0.5 * mx.random.normal(weight.shape), network.parameters()))
broken = int(mx.isnan(network(mx.ones((1, 8)))).sum())
print("outputs of NaN after noise of 0.5 on all parameters:", broken, "of 64")
both = ["running_mean", "running_var"]
raise SystemExit(list(seen.values()) != [both, [], both, []] or not broken)
EOF
