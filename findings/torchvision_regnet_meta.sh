#!/usr/bin/env bash
# RegNets are the only torchvision models that cannot be built on the meta device
#
# Version: torchvision 0.29.1, torch 2.14.1
# Belief: Under torch.device("meta") any model is built without memory, to count its parameters or to plan shapes.
# Seen: All 15 RegNets raise "Cannot copy out of meta tensor": their widths are computed by torch tensors, which are on the meta
#   device too. The other 106 models are built.
# Means: A tool that plans members by a model's parameters on the meta device works for every network that one tries, until a RegNet.
#   Build on the CPU where meta fails.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 torchvision==0.29.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torchvision import models

failed, names = {}, models.list_models()
for name in names:
    backbone = {} if models.get_model_builder(name).__module__.count(".") == 2 else {"weights_backbone": None}
    backbone = backbone if any(word in name for word in ("rcnn", "retina", "ssd", "fcos", "deeplab", "fcn", "lraspp")) else {}
    try:
        with torch.device("meta"):
            models.get_model(name, weights=None, **backbone)
    except NotImplementedError as error:
        failed[name] = str(error)
regnets = [name for name in names if name.startswith("regnet")]
print(f"{len(names)} models, {len(failed)} fail, {len(regnets)} of them RegNets:", set(failed.values()))
raise SystemExit(sorted(failed) != sorted(regnets))
EOF
