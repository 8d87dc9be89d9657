"""The validation part of training examples."""

import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.search.candidate import hold_out
from neuro_cli.task.classification import Data, Split
from neuro_cli.task.digits import Digits


def data(count: int, classes: int) -> Data:
    """Every image is of the number of its example."""
    images = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1)
    split = Split(images, torch.arange(count) % classes)
    return Data(split, split, (0.5,), (0.5,), classes)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.75])
def test_every_example_is_in_one_part_and_every_class_in_both(share):
    whole = data(200, 4)
    parts = hold_out(whole, share, "validation")
    numbers = [set(part.images.flatten().tolist()) for part in parts]
    assert numbers[0] | numbers[1] == set(range(200))
    assert len(numbers[0]) + len(numbers[1]) == 200
    counts = parts[1].targets.bincount()
    assert (counts - 50 * share).abs().max() <= 1
    for part in parts:  # pictures keep their classes
        assert torch.equal(part.images.flatten() % 4, part.targets.to(torch.uint8))


def test_the_same_examples_are_held_out_each_time_and_none_of_the_test_set():
    digits = Digits("accuracy", 500).read(None)
    first, second = (hold_out(digits, 0.2, "validation") for _ in range(2))
    assert torch.equal(first[1].images, second[1].images)
    assert (len(first[0].targets), len(first[1].targets)) == (1150, 287)


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_an_empty_part_is_refused(share):
    with pytest.raises(ConfigError, match=f"^training.validation={share}: leaves no training or no validation example, of 20"):
        hold_out(data(20, 2), share, "training.validation")
