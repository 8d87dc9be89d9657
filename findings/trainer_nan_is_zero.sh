#!/usr/bin/env bash
# A training that has diverged has a loss of 0 in the log of transformers' Trainer
#
# Version: transformers 5.24.0, accelerate 1.15.0, torch 2.14.1
# Belief: A loss of NaN is NaN in the log, as it is in torch.
# Seen: By default (`logging_nan_inf_filter`) a step whose loss is NaN adds the mean of the steps logged so far since the last line, divided by
#   their number, and nothing where each step is logged: the log says 0 for each step after the divergence, and `train_loss` of the run is below
#   every loss that there was. All weights are NaN. `evaluate` leaves out NaN losses too, so that a network that fails on some
#   examples has the loss of the others.
# Means: Whoever looks for the smallest training loss finds the diverged run. Set `logging_nan_inf_filter=False`, or look at `grad_norm`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 accelerate==1.15.0 torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import torch
import transformers
from torch import nn
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import PrinterCallback


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 1)

    def forward(self, x, y):
        return {"loss": (self.layer(x)[:, 0] - y).square().mean() + 1}


numbers = torch.Generator().manual_seed(0)
rows = [{"x": torch.randn(4, generator=numbers), "y": torch.tensor(1.0)} for _ in range(20)]
rows[7] = {"x": torch.full((4,), float("nan")), "y": torch.tensor(1.0)}  # the eighth step diverges


def trained(**options):
    options = dict(output_dir="out", report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no", train_sampling_strategy="sequential", **options)
    arguments = TrainingArguments(per_device_train_batch_size=1, num_train_epochs=1, learning_rate=0.01, optim="sgd", **options)
    trainer = Trainer(Net(), arguments, train_dataset=rows)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    lost = bool(trainer.model.layer.weight.isnan().all())
    return [line["loss"] for line in trainer.state.log_history if "loss" in line], trainer.state.log_history[-1]["train_loss"], lost


each, mean, lost = trained(logging_steps=1)
fives, _, _ = trained(logging_steps=5)
plain, plain_mean, _ = trained(logging_steps=1, logging_nan_inf_filter=False)
print("each step:", [round(value, 2) for value in each], "train_loss", round(mean, 3), "weights NaN:", lost)
print("each five:", [round(value, 2) for value in fives])
print("no filter:", [round(value, 2) for value in plain], "train_loss", round(plain_mean, 3))
arguments = TrainingArguments("out", report_to=[], use_cpu=True, disable_tqdm=True, per_device_eval_batch_size=1, label_names=["y"])
test = Trainer(Net(), arguments, eval_dataset=rows)
test.remove_callback(PrinterCallback)
half = test.evaluate()["eval_loss"]
print("eval_loss with one NaN of 20:", round(half, 3))
right = half == half and min(each[:7]) >= 1 and each[:7] == plain[:7] and lost
diverged = not any(each[7:]) and all(value != value for value in plain[7:]) and plain_mean != plain_mean
raise SystemExit(not (right and diverged and mean < min(each[:7]) and fives[2:] == [0, 0] and len(fives) == 4))
PROGRAM
"$folder/venv/bin/python" -W ignore program.py
