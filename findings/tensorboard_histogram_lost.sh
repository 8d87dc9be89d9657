#!/usr/bin/env bash
# A histogram in TensorBoard leaves out diverged and very large weights, and a finite loss can be infinite
#
# Version: torch 2.14.1, tensorboard 2.21.0, numpy 2.4.6
# Belief: A histogram with a NaN raises or shows it, and what is in it adds up to the number of weights.
# Seen: Of 1, 2 and NaN or infinity the buckets hold two, with no word, and the number is three. Of 1e30 and 1e-30 they hold one, and
#   1e25 alone raises "The histogram is empty, please file a bug report". `add_scalar` makes a loss of 1e39 infinite and 5e-46
#   zero; a seed of 2**53 + 1 among the hyper-parameters is 2**53.
# Means: In a diverging network the histogram shows the weights that are still well. Log the count of numbers that are not finite as a
#   scalar, with `double_precision=True` and `new_style=True`, and seeds as text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 tensorboard==2.21.0 numpy==2.4.6 setuptools==80.9.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter

weights = {
    "nan": [1.0, 2.0, float("nan")],
    "infinity": [1.0, 2.0, float("inf")],
    "large": [1e30, 1e-30],
    "well": [1.0, 2.0, 3.0],
}
writer = SummaryWriter("events")
for name, values in weights.items():
    writer.add_histogram(name, np.array(values), 1)
try:
    writer.add_histogram("alone", np.array([1e25]), 1)
    raised = ""
except ValueError as error:
    raised = str(error)
losses = (1e39, 5e-46)
for step, loss in enumerate(losses):
    writer.add_scalar("loss", loss, step)
    writer.add_scalar("double", loss, step, double_precision=True, new_style=True)
writer.add_hparams({"seed": 2**53 + 1}, {"loss": 1.0}, run_name="hyper")
writer.close()
events = EventAccumulator("events")
events.Reload()
held = {}
for name in weights:
    histogram = events.Histograms(name)[0].histogram_value
    held[name] = histogram.num, sum(histogram.bucket)
    print(f"{name} {weights[name]}: number {held[name][0]:g}, in the buckets {held[name][1]:g}, from {histogram.min} to {histogram.max}")
print("1e25 alone:", raised)
read = [event.value for event in events.Scalars("loss")]
double = [float(event.tensor_proto.double_val[0]) for event in events.Tensors("double")]
print("losses", losses, "are", read, "and with double_precision", double)
hyper = EventAccumulator("events/hyper")
hyper.Reload()
start = hyper.summary_metadata["_hparams_/session_start_info"].plugin_data.content
seed = HParamsPluginData.FromString(start).session_start_info.hparams["seed"].number_value
print("the seed", 2**53 + 1, "is", int(seed))
holds = held == {"nan": (3, 2), "infinity": (3, 2), "large": (2, 1), "well": (3, 3)} and "bug report" in raised
raise SystemExit(not (holds and read == [float("inf"), 0.0] and double[0] == 1e39 and int(seed) == 2**53))
PROGRAM
