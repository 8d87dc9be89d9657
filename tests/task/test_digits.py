"""The bundled digits: the split, and the shapes that a model may ask for."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from support.made_data import load

from neuro_cli.task.digits import Digits, bundled_digits

OPTIONS = {"fitness": "negative_cross_entropy", "evaluation_batch": 500}


def test_the_split_is_stratified_and_always_the_same():
    data, again = Digits(**OPTIONS).read(None), Digits(**OPTIONS).read(None)
    assert data.train.images.shape == (1437, 1, 8, 8)
    assert data.test.images.shape == (360, 1, 8, 8)
    assert torch.equal(data.train.images, again.train.images)
    assert torch.equal(data.test.targets, again.test.targets)
    counts = torch.bincount(data.test.targets, minlength=10)
    assert counts.max() - counts.min() <= 2
    assert data.train.images.unique().numel() == 17
    assert data.train.images.max() == 255


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 8, 8), (1, 4, 5)])
def test_images_take_the_shape_that_the_model_declares(shape):
    task = load(Digits(**OPTIONS), input_shape=shape)
    assert task.input_shape == shape
    images = task.batch(0, 0, 4).inputs
    assert images.shape == (4, *shape)
    assert images.stride()[1] == 1
    assert torch.equal(images, images[:, :1].expand_as(images))
    assert task.evaluation_chunks == 1


def test_training_pixels_have_mean_zero_and_deviation_one():
    task = load(Digits(**OPTIONS), batch_size=1437)
    assert task.input_shape == (1, 8, 8)
    pixels = task.batch(0, 0, 1437).inputs.double()
    assert pixels.mean().item() == pytest.approx(0, abs=1e-6)
    assert pixels.std().item() == pytest.approx(1, abs=1e-4)


def test_images_are_those_of_scikit_learn():
    images, targets = bundled_digits()
    expected = load_digits()
    assert np.array_equal(images[:, 0].numpy(), expected.images)
    assert np.array_equal(targets.numpy(), expected.target)
