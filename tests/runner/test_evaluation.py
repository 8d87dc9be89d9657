"""Evaluations depend neither on threads nor on what a chunk leaves behind, and the test set stays as it is."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.machine.threads import Threads
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.centre_evaluation import sums_over_chunks
from neuro_cli.task.dataset import Dataset

IMAGES = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer, self.kept = nn.Linear(16, 3), torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.flatten(1))


class Dropout(Net):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.layer(x.flatten(1)), 0.4)


class Membrane(Net):
    def forward(self, x: Tensor) -> Tensor:
        made = self.layer(x.flatten(1)) + self.kept
        self.kept = made.mean(0)
        return made


class InPlace(Net):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.mul_(0.5).flatten(1))


def task() -> Dataset:
    data = [(image, number % 3) for number, image in enumerate(IMAGES)]
    made = Dataset(train=data, test=data, loss=nn.CrossEntropyLoss(), evaluation_batch=5)
    made.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=4)
    return made


@pytest.mark.parametrize("kind", [Net, Dropout, Membrane, InPlace])
def test_it_has_the_same_bits_on_any_number_of_threads_and_twice(kind):
    found, same_task = [], task()
    for count in (1, 2, 3, 2):
        threads, module = Threads(count), kind().eval()
        for _ in range(2):
            with torch.no_grad():
                found.append(sums_over_chunks(same_task, module, SingleProcess(), threads))
        threads.close()
    assert all(np.array_equal(sums, found[0]) for sums in found)


def test_a_chunk_is_evaluated_as_if_it_were_the_first():
    threads, module = Threads(2), Membrane().eval()
    with torch.no_grad():
        sums = sums_over_chunks(task(), module, SingleProcess(), threads)
        one = [F.cross_entropy(Membrane()(part), torch.arange(start, start + 5) % 3, reduction="sum")
               for start, part in zip(range(0, 40, 5), IMAGES.split(5), strict=True)]  # fmt: skip
    threads.close()
    assert sums[0] == pytest.approx(float(sum(one)), rel=1e-5)
    assert torch.equal(module.kept, torch.zeros(3))
