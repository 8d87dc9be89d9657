"""W1 on EvoTorch (SupervisedNE, PGPE), in a process and an environment of its own: a generation for every line on stdin.

python evotorch_worker.py SETTING_AS_JSON; prints one JSON object a generation, as neuro_worker.py does.

Its fastest way on a CPU: no actors (two, each with its share of the population, gained nothing and hold a population
each), activations channels last, no change of the standard deviation. PGPE updates with the last generation's fitness
before it samples the next; its first step, which is not counted, has no update.
"""

import json
import os
import sys
import time
from itertools import pairwise
from typing import Any

import torch
from evotorch.algorithms import PGPE
from evotorch.neuroevolution import SupervisedNE
from torch import Tensor, nn
from torch.utils.data import TensorDataset

SIGMA, LEARNING_RATE = 0.05, 0.02  # neuro's defaults; no timing depends on them


class Network(nn.Module):
    """Images (B, 1, 28, 28) to logits (B, 10), as in neuro_cli.model.mnist."""

    def __init__(self, setting: dict[str, Any]) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for before, after in pairwise((1, *setting["channels"])):
            blocks += [nn.Conv2d(before, after, 5, padding=2), nn.MaxPool2d(2), nn.ReLU()]
        self.features = nn.Sequential(*blocks)
        width, hidden = setting["channels"][-1] * 7 * 7, setting["hidden"]
        head = [] if hidden is None else [nn.Linear(width, hidden), nn.ReLU()]
        self.classifier = nn.Sequential(*head, nn.Linear(hidden or width, 10))

    def forward(self, images: Tensor) -> Tensor:
        # marks channels as last, which the activations follow; with one channel nothing is copied
        channels_last = images.view(-1, 28, 28, 1).permute(0, 3, 1, 2)
        return self.classifier(self.features(channels_last).flatten(1))


def searcher(setting: dict[str, Any]) -> PGPE:
    """Return PGPE on one batch of random images with random labels."""
    network = Network(setting)
    center = nn.utils.parameters_to_vector(network.parameters()).detach()
    assert len(center) == setting["parameters"], f"{len(center)} parameters, not {setting['parameters']}"
    size = setting["batch_size"]
    data = TensorDataset(torch.randn(size, 1, 28, 28), torch.randint(10, (size,)))
    problem = SupervisedNE(data, network, nn.CrossEntropyLoss(), minibatch_size=size, num_minibatches=1, common_minibatch=True)
    return PGPE(
        problem,
        popsize=setting["population"],
        center_learning_rate=LEARNING_RATE,
        stdev_learning_rate=0.0,
        stdev_init=SIGMA,
        stdev_max_change=None,  # otherwise it compares the old deviations with the new, which are the same
        center_init=center,
        optimizer="adam",
        ranking_method="centered",
        symmetric=True,
    )


def peak_memory_bytes() -> float:
    """Return the peak memory of this program: ``ru_maxrss`` would begin at the peak of the process that started it."""
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main() -> None:
    setting = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # EvoTorch logs to standard output, where only answers are wanted
    torch.set_num_threads(setting["threads"])
    torch.manual_seed(setting["seed"])
    search = searcher(setting)
    for _ in sys.stdin:
        start = time.perf_counter()
        search.step()
        seconds = time.perf_counter() - start
        assert search.population.evals.isfinite().all()
        print(json.dumps({"seconds": seconds, "peak_memory_bytes": peak_memory_bytes()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
