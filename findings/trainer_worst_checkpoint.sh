#!/usr/bin/env bash
# The best checkpoint by perplexity is the worst one in transformers' Trainer, and eval_loss depends on the batch
#
# Version: transformers 5.24.0, accelerate 1.15.0, torch 2.14.1
# Belief: `load_best_model_at_end` with `metric_for_best_model` set to perplexity ends with the smallest perplexity.
# Seen: Whether larger is better is guessed from the name: only names that end with `loss` are minimised. By perplexity, word error rate, error
#   or Brier score the run ends with its worst checkpoint, and early stopping ends a run that improves at each epoch. The loss
#   itself is a mean of the batches' means, so that texts of other lengths have another `eval_loss` by the batch size: 5.05 to 5.29.
# Means: Set `greater_is_better`, and compare losses of one batch size alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 accelerate==1.15.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import tempfile

import numpy as np
import torch
from transformers import EarlyStoppingCallback, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback

generator = np.random.default_rng(0)
texts = [{"tokens": generator.integers(0, 64, length)} for length in (3, 30, 4, 40, 5, 50, 3, 3, 60, 2)]


def model():
    torch.manual_seed(0)
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2)
    return LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=64, initializer_range=0.3, tie_word_embeddings=False))


def padded(rows):
    longest = max(len(row["tokens"]) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    labels, mask = torch.full_like(tokens, -100), torch.zeros_like(tokens)
    for place, row in enumerate(rows):
        values = torch.tensor(row["tokens"])
        tokens[place, : len(values)] = labels[place, : len(values)] = values
        mask[place, : len(values)] = 1
    return {"input_ids": tokens, "labels": labels, "attention_mask": mask}


class Scripted(Trainer):
    """Evaluations with given values of a metric."""

    def evaluate(self, *args, **more):
        metrics = {f"eval_{self.metric}": self.values.pop(0), "epoch": self.state.epoch}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def trainer(kind, folder, callbacks=(), **options):
    arguments = TrainingArguments(output_dir=folder, report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, **options)
    made = kind(model(), arguments, train_dataset=texts, eval_dataset=texts, data_collator=padded, callbacks=list(callbacks))
    made.remove_callback(PrinterCallback)
    return made


def best(metric, values, **more):
    with tempfile.TemporaryDirectory() as folder:
        options = dict(per_device_train_batch_size=10, num_train_epochs=len(values), eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
        run = trainer(Scripted, folder, [EarlyStoppingCallback(2)], metric_for_best_model=metric, save_only_model=True, **options, **more)
        run.metric, run.values = metric, list(values)
        run.train()
        return run.state.best_metric, run.state.global_step


seen = {}
for metric in ("my_loss", "perplexity", "wer", "error", "brier"):
    seen[metric] = best(metric, [9.0, 5.0, 3.0, 1.0])
    print(f"{metric} of 9, 5, 3, 1: best {seen[metric][0]}, {seen[metric][1]} of 4 epochs")
told = best("perplexity", [9.0, 5.0, 3.0, 1.0], greater_is_better=False)
print(f"perplexity with greater_is_better=False: best {told[0]}, {told[1]} of 4 epochs")
with tempfile.TemporaryDirectory() as folder:
    losses = {size: trainer(Trainer, folder, per_device_eval_batch_size=size).evaluate()["eval_loss"] for size in (1, 2, 3, 4, 10)}
print("eval_loss of one model and ten texts by batch size:", {size: round(loss, 3) for size, loss in losses.items()})
worst = all(seen[metric] == (9.0, 3) for metric in ("perplexity", "wer", "error", "brier"))
raise SystemExit(not (worst and seen["my_loss"] == told == (1.0, 4) and max(losses.values()) - min(losses.values()) > 0.15))
PROGRAM
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py 2>/dev/null
