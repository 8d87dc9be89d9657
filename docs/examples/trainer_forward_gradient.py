"""Hugging Face's Trainer by forward passes alone: python trainer_forward_gradient.py EPOCHS (needs transformers[torch])."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import neuro_cli as neuro


def losses(outputs: dict, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of each example."""
    return F.cross_entropy(outputs["logits"], labels, reduction="none")


class ForwardTrainer(Trainer):
    """Trainer whose steps fill ``.grad`` by :class:`neuro.ForwardGradient`."""

    def training_step(self, model: nn.Module, inputs: dict, num_items_in_batch: torch.Tensor | None = None) -> torch.Tensor:
        if not hasattr(self, "estimate"):
            self.estimate = neuro.ForwardGradient(self.accelerator.unwrap_model(model))
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        return self.estimate.backward(losses, inputs, labels)


torch.manual_seed(1)
words = torch.randint(2, 50, (512, 8))
labels = (words[:, 0] > words[:, 1]).long()  # which of the first two words comes later in the vocabulary
data = [
    {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": label} for row, label in zip(words, labels, strict=True)
]
config = BertConfig(
    vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, max_position_embeddings=8,
    num_labels=2, attn_implementation="eager",
)  # fmt: skip
arguments = TrainingArguments(
    output_dir="trainer", num_train_epochs=int(sys.argv[1]), per_device_train_batch_size=64, learning_rate=0.005, use_cpu=True,
    report_to=[], save_strategy="no", logging_strategy="epoch", disable_tqdm=True,
)  # fmt: skip
trainer = ForwardTrainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=data)
trainer.train()
history = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
print(f"first epoch: loss {history[0]}")
print(f"last epoch: loss {history[-1]}")
