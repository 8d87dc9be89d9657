#!/usr/bin/env bash
# In int8 a prompt's score in CTranslate2 depends on its neighbours in the batch a thousand times more than in float32
#
# Version: ctranslate2 4.8.5, transformers 5.24.0, torch 2.14.1; one thread, an Intel Xeon with AVX-512
# Belief: Integer products are exact and activations are quantised row by row, so that in int8 a prompt's score is the same alone and in a
#   batch, while float32 may differ in its last bits.
# Seen: A GPT-2 of 4 layers and 48 prompts of 2 to 128 tokens: log-probabilities alone and in one batch differ by at most 4.8e-7 in float32,
#   7.2e-4 in int8 and 0 in int16. What is float32 around the products differs in its last bit, and a rounding to int8 makes it a step.
# Means: Two members with near fitnesses change places by what else is in their batch. Score in batches that are always cut alike, or in
#   int16.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 transformers==5.24.0 ctranslate2==4.8.5 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2> /dev/null <<'EOF'
import ctranslate2
import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

words = [f"t{number}" for number in range(64)]
tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="t0"))
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="t0", bos_token="t0", eos_token="t0")
fast.save_pretrained("gpt")
torch.manual_seed(0)
config = GPT2Config(vocab_size=64, n_positions=256, n_embd=384, n_layer=4, n_head=6, bos_token_id=0, eos_token_id=0)
GPT2LMHeadModel(config).eval().save_pretrained("gpt")
ctranslate2.converters.TransformersConverter("gpt").convert("converted")
generator = np.random.default_rng(0)
lengths = (5, 9, 3, 12, 7, 12, 20, 2, 64, 33, 17, 128, 80, 2, 40, 24) * 3
prompts = [[f"t{token}" for token in generator.integers(1, 64, length)] for length in lengths]
most = {}
for kind in ("float32", "int8", "int16"):
    model = ctranslate2.Generator("converted", compute_type=kind, inter_threads=1, intra_threads=1)
    alone = [model.score_batch([prompt])[0].log_probs for prompt in prompts]
    batch = [result.log_probs for result in model.score_batch(prompts)]
    most[kind] = max(abs(a - b) for one, other in zip(alone, batch) for a, b in zip(one, other))
    print(f"{kind}: alone against in a batch of {len(prompts)}: {most[kind]:.2g}")
raise SystemExit(not (0 < most["float32"] < 1e-5 and 1e-4 < most["int8"] < 1e-2 and most["int16"] < 1e-5))
EOF
