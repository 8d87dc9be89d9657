"""Distortion of training images: right values, addresses, bounds."""

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.task import distortion
from neuro_cli.task.digits import Digits
from neuro_cli.task.distortion import NUMBERS, distorted


def images(count=6, height=12, width=9, channels=2):
    return torch.randint(0, 256, (count, height, width, channels), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("word", "step"), [(2**32 - 1, 1), (0, -1)])
def test_equal_displacements_move_an_image(monkeypatch, word, step):
    monkeypatch.setattr(distortion, "words_between", lambda *address: np.full(address[-1] - address[-2], word, np.uint32))
    given = images()
    moved = distorted(given, 2.0, 1, 0, 0)
    wanted = torch.zeros_like(moved)
    if step > 0:
        wanted[:, :-2, :-2] = given[:, 2:, 2:].float()
    else:
        wanted[:, 2:, 2:] = given[:, :-2, :-2].float()
    torch.testing.assert_close(moved, wanted, rtol=0, atol=1e-3)


def test_one_point_moves_along_one_axis(monkeypatch):
    """The numbers of an image are displacements of columns, then of rows, each of 4 x 4 points from the top left on."""
    words = np.full((1, NUMBERS), 2**31, np.uint32)
    words[0, 3] = 2**32 - 1  # columns, top right
    monkeypatch.setattr(distortion, "words_between", lambda *address: words.ravel())
    ramp = torch.arange(16).repeat(16, 1)[None, :, :, None] * 10  # values grow along columns
    moved = distorted(ramp, 1.0, 1, 0, 0)[0, :, :, 0]
    assert moved[0, 14] == pytest.approx(140 + 10 * float(cubic(14 / 15 * 3 - 2)), abs=1e-2)
    torch.testing.assert_close(moved[-1], ramp[0, -1, :, 0].float(), rtol=0, atol=1e-3)


def cubic(place):
    """Weight of the last of four points, repeated behind the end, at ``place`` in [0, 1] between the last two (A = -0.75)."""
    a = -0.75

    def weight(x):
        x = abs(x)
        return (a + 2) * x**3 - (a + 3) * x**2 + 1 if x <= 1 else a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a

    return weight(1 - place) + weight(2 - place)  # the last point, and its copy behind it


def test_a_part_of_a_batch_has_the_images_of_the_batch():
    given = images()
    complete = distorted(given, 1.5, 7, 3, 0)
    for start in range(0, 6, 2):
        assert torch.equal(distorted(given[start : start + 2], 1.5, 7, 3, start), complete[start : start + 2])
    for seed, batch in ((8, 3), (7, 4)):
        assert not torch.equal(distorted(given, 1.5, seed, batch, 0), complete)


def test_a_task_distorts_training_images_alone():
    plain, moved = (
        Digits("negative_cross_entropy", 100, distort=pixels)
        for pixels in (0.0, 1.0)
    )  # fmt: skip
    for task in (plain, moved):
        task.load(input_shape=(1, 8, 8), device=torch.device("cpu"), seed=1, batch_size=32)
    before, after = (task.batch(5, 0, 32) for task in (plain, moved))
    assert torch.equal(before.targets, after.targets)
    assert 0.05 < float((before.inputs - after.inputs).abs().mean()) < 1
    assert torch.equal(moved.batch(5, 7, 20).inputs, after.inputs[7:20])
    assert torch.equal(plain.test_batch(0).inputs, moved.test_batch(0).inputs)


def test_a_bound_beyond_the_image_is_refused():
    task = Digits("negative_cross_entropy", 100, distort=1e300)
    with pytest.raises(ConfigError, match=r"^task\.distort=1e\+300: images are 1x8x8"):
        task.load(input_shape=(1, 8, 8), device=torch.device("cpu"), seed=1, batch_size=32)
