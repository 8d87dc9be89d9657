#!/usr/bin/env bash
# Of a group in GRPO the completion whose reward is NaN or missing can be the best one
#
# Version: trl 1.16.0, transformers 5.24.0, torch 2.14.1
# Belief: A completion that a reward function gives None, or NaN, has no share of that function, or is the worst of its group.
# Seen: With one function it has an advantage of 0, so the mean of its group. With two it has 0 for that function and the other function's
#   reward: where rewards are penalties, of -1 to -3, it has the largest advantage of its group. One infinite reward makes all advantages of
#   its group 0, and so do rewards of 1e8 to 1e8 + 3. The log has means that leave the missing ones out.
# Means: A checker that fails, or a simulation that diverges, is rewarded. Return the worst reward in place of None and NaN, and keep rewards near 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet trl==1.16.0 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

words = Tokenizer(WordLevel({"end": 0, "one": 1, "two": 2, "three": 3}, unk_token="end"))
words.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="end", pad_token="end")


class Watched(GRPOTrainer):
    def _generate_and_score_completions(self, inputs):
        result = super()._generate_and_score_completions(inputs)
        self.advantages = [round(value, 2) for value in result["advantages"].tolist()]
        return result


def given(values, name):
    def reward(completions, **more):
        return list(values)

    reward.__name__ = name
    return reward


def advantages(*functions):
    torch.manual_seed(0)
    sizes = dict(vocab_size=4, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=32)
    prompts = Dataset.from_list([{"prompt": "one two"}, {"prompt": "two three"}])
    with tempfile.TemporaryDirectory() as folder:
        options = dict(output_dir=folder, report_to=[], use_cpu=True, bf16=False, disable_tqdm=True, save_strategy="no")
        arguments = GRPOConfig(per_device_train_batch_size=4, num_generations=4, max_completion_length=4, max_steps=1, **options)
        rewards = [given(values, f"reward_{place}") for place, values in enumerate(functions)]
        trainer = Watched(LlamaForCausalLM(LlamaConfig(**sizes)), rewards, args=arguments, train_dataset=prompts, processing_class=tokenizer)
        trainer.train()
        return trainer.advantages


nan, infinity = float("nan"), float("inf")
CASES = {
    "plain": [[0, 1, 2, 3]],
    "None": [[None, 1, 2, 3]],
    "NaN": [[nan, 1, 2, 3]],
    "penalties, one None": [[None, -1, -2, -3], [0, 0, 0, 0]],
    "penalties, one NaN": [[nan, -1, -2, -3], [0, 0, 0, 0]],
    "one infinity": [[infinity, 1, 2, 3]],
    "one minus infinity": [[-infinity, 1, 2, 3]],
    "1e8 and more": [[1e8, 1e8 + 1, 1e8 + 2, 1e8 + 3]],
}
seen = {}
for name, functions in CASES.items():
    seen[name] = advantages(*functions)
    print(f"{name}, rewards {functions}: advantages {seen[name]}", flush=True)
first = seen["plain"][0] < -1 and seen["None"][0] == seen["NaN"][0] == 0
best = all(max(seen[name]) == seen[name][0] > 1 for name in ("penalties, one None", "penalties, one NaN"))
raise SystemExit(not (first and best and not any(seen["one infinity"] + seen["one minus infinity"] + seen["1e8 and more"])))
PROGRAM
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py 2>/dev/null
