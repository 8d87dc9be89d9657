#!/usr/bin/env bash
# With a cache the harness scores a changed model by the old model's answers
#
# Version: lm-eval 0.4.13, transformers 5.24.0, torch 2.14.1
# Belief: `simple_evaluate(model, use_cache=PATH)` saves answers of that model, and another model's are computed.
# Seen: The key of an answer is the request alone: neither weights nor the model's name are in it. A network that was changed by noise, and
#   one of another size, have the first one's accuracy and log likelihoods exactly. A later evaluation of the changed network by the same
#   wrapper without `use_cache` writes its answers into the file too.
# Means: A fitness, or a curve over checkpoints, is one number for all members. Give each member a file of its own, or no cache.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lm-eval==0.4.13 transformers==5.24.0 accelerate torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import logging

import lm_eval
import torch
from datasets import Dataset
from lm_eval.models.huggingface import HFLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

logging.disable(logging.WARNING)
vocabulary = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))} | {"<|end|>": 256}
letters = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
letters.pre_tokenizer, letters.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<|end|>", pad_token="<|end|>")
rows = [{"question": f"{a} plus {b} is", "choices": [f" {a + b}", f" {a + b + 1}"], "right": 0} for a in range(8) for b in range(8)]


def task():
    return {
        "task": "sums",
        "custom_dataset": lambda **more: {"test": Dataset.from_list(rows)},
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "choices",
        "doc_to_target": "right",
        "output_type": "multiple_choice",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }


def network(width=32):
    torch.manual_seed(0)
    sizes = dict(vocab_size=257, hidden_size=width, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=64, initializer_range=0.2)).eval()


def evaluate(wrapper, cache=None):
    result = lm_eval.simple_evaluate(model=wrapper, tasks=[task()], use_cache=cache, bootstrap_iters=0)
    likelihoods = [float(answer[0][0]) for sample in result["samples"]["sums"] for answer in sample["resps"]]
    return result["results"]["sums"]["acc,none"], likelihoods


def changed():
    model = network()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=noise))
    return model


def wrap(model):
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16, device="cpu")


first = evaluate(wrap(network()), "answers")
second = evaluate(wrap(changed()), "answers")
wider = evaluate(wrap(network(64)), "answers")
alone = evaluate(wrap(changed()))
wrapper = wrap(changed())
evaluate(wrapper, "answers")
evaluate(wrapper)
back = evaluate(wrap(network()), "answers")
seen = {"first network": first, "changed by noise": second, "of another width": wider, "changed by noise, no cache": alone}
for name, (accuracy, likelihoods) in (seen | {"first network again, after an evaluation without cache": back}).items():
    print(f"{name}: accuracy {accuracy:.3f}, first log likelihood {likelihoods[0]:.3f}")
raise SystemExit(not (first == second == wider and alone[1] != first[1] and alone[0] != first[0] and back == alone))
PROGRAM
HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py 2>/dev/null
