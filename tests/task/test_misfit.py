"""Whether a task can score a module at all, and in which memory format: asked before a run begins."""

import logging

import pytest
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import UserError
from neuro_cli.task.digits import Digits


@pytest.fixture
def task() -> Digits:
    made = Digits("negative_cross_entropy", 500)
    made.load(input_shape=None, device=torch.device("cpu"), seed=1, batch_size=2)
    return made


class Viewing(nn.Module):
    """Takes a view after a convolution, which channels-last activations do not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.last = nn.Conv2d(1, 4, 3), nn.Linear(144, 10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.last(self.convolution(images).view(len(images), 144))
        return logits


def test_a_module_that_fits_keeps_channels_last(task):
    assert task.misfit(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10))) is None
    assert task.memory_format is torch.channels_last


def test_a_module_that_takes_views_gets_contiguous_activations(task, caplog):
    with caplog.at_level(logging.INFO):
        assert task.misfit(Viewing()) is None
    assert task.memory_format is torch.contiguous_format
    assert "the model takes no channels_last activations" in caplog.text


def test_a_module_of_another_input_is_refused_with_its_reason(task):
    reason = task.misfit(nn.Sequential(nn.Flatten(), nn.Linear(65, 10)))
    assert reason is not None
    assert reason.startswith("the model does not take 1x8x8 examples: mat1 and mat2 shapes")


def test_outputs_that_are_no_logits_of_the_task_are_its_own_error(task):
    with pytest.raises(UserError, match=r"^model: its output for 2 images is 2x3, task=digits needs 2x10 logits$"):
        task.misfit(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))


def test_the_module_keeps_its_numbers(task):
    module = Viewing()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    task.misfit(module)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
