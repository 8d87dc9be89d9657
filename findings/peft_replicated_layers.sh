#!/usr/bin/env bash
# A model with replicated layers is another network once its adapters are merged
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: `merge_and_unload` keeps what the network computes, with `layer_replication` too, as it does for every other LoRA.
# Seen: Copies of a layer share one base weight and have an adapter each. Merging adds the products of all copies to the shared weight, so each
#   copy has the sum of them: logits are off by more than their deviation, with no word, by `merge_adapter` too. Where no layer is used
#   twice, and by the saved adapter, they are right to 1e-5.
# Means: What is served after the merge is not what was scored. Untie the copies' weights before you merge, or serve the adapter.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import copy

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
tokens = torch.arange(20).view(2, 10)


def base():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.2, tie_word_embeddings=False)).eval()


def logits(model):
    with torch.no_grad():
        return model(tokens).logits


def tuned(layers):
    model = get_peft_model(base(), LoraConfig(r=4, layer_replication=layers, target_modules=["q_proj", "v_proj", "down_proj"])).eval()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise))
    return model


def untied(model):
    """The copies of a layer with weights of their own."""
    for layer in model.model.model.layers:
        for module in layer.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                setattr(module, name, torch.nn.Parameter(parameter.detach().clone()))
    return model


seen = {}
for title, layers in {"two layers, each once": [[0, 2]], "two layers, each twice": [[0, 2], [0, 2]], "the first layer twice": [[0, 1], [0, 2]]}.items():
    model = tuned(layers)
    right = logits(model)
    deviation = right.std()
    model.save_pretrained("adapter")
    loaded = logits(PeftModel.from_pretrained(base(), "adapter").eval())
    merged = logits(copy.deepcopy(model).merge_and_unload())
    model.merge_adapter()
    in_place = logits(model)
    apart = logits(untied(tuned(layers)).merge_and_unload())
    seen[title] = [float((got - right).abs().max() / deviation) for got in (loaded, merged, in_place, apart)]
    ways = ("once loaded", "merged", "by merge_adapter", "merged with weights apart")
    print(f"{title}: logits off, in deviations,", ", ".join(f"{value:.1e} {way}" for value, way in zip(seen[title], ways)))
twice = [values for title, values in seen.items() if "twice" in title]
holds = max(seen["two layers, each once"]) < 1e-4 and all(a < 1e-4 and b > 0.5 and c > 0.5 and d < 1e-4 for a, b, c, d in twice)
raise SystemExit(not holds)
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
