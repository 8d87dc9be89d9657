"""Class folders of images: what is read, how it is resized, and every line that a user may see."""

import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from support.made_data import load, write_image

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.image_folder import ImageFolder
from neuro_cli.task.images import pixel_statistics


def make(root):
    return ImageFolder(root=str(root), fitness="negative_cross_entropy", evaluation_batch=500)


def refused(root, text, **arguments):
    with pytest.raises(ConfigError, match=f"^{re.escape(f'task.root={root}: ')}{text}"):
        load(make(root), **arguments)


def test_images_and_classes_are_read_as_they_are(image_root):
    task = load(make(image_root), batch_size=6)
    assert task.input_shape == (3, 5, 6)
    assert task.output_size == 2
    data = task.read(None)
    assert data.train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    with Image.open(image_root / "train" / "dog" / "1.png") as image:
        assert np.array_equal(data.train.images[4].permute(1, 2, 0).numpy(), np.asarray(image))
    pixels = task.batch(0, 0, 6).inputs.double()
    assert pixels.mean((0, 2, 3)).abs().max() < 1e-6
    assert (pixels.var((0, 2, 3), correction=0) - 1).abs().max() < 1e-4


@pytest.mark.parametrize("shape", [(3, 8, 4), (1, 5, 6), (1, 28, 28)])
def test_images_take_the_shape_that_the_model_declares(image_root, shape):
    write_image(image_root / "train" / "cat" / "large.jpg", 40, 30)
    task = load(make(image_root), input_shape=shape)
    assert task.input_shape == shape
    assert task.batch(0, 0, 4).inputs.shape == (4, *shape)


def test_grey_and_palette_images_become_colour(image_root):
    with Image.open(image_root / "train" / "cat" / "0.png") as image:
        image.convert("L").save(image_root / "train" / "cat" / "1.png")
        image.convert("P").save(image_root / "train" / "cat" / "2.png")
    grey = make(image_root).read(None).train.images[1]
    assert torch.equal(grey, grey[:1].expand(3, -1, -1))


def test_missing_folders_are_named(image_root, tmp_path_factory):
    refused(tmp_path_factory.mktemp("empty"), "no train folder there; it must hold train and test")
    shutil.rmtree(image_root / "test")
    refused(image_root, "no test folder there")


def test_empty_folders_are_named(image_root):
    (image_root / "train" / "cow").mkdir()
    refused(image_root, "train: Found no valid file for the classes cow")
    shutil.rmtree(image_root / "train")
    (image_root / "train").mkdir()
    refused(image_root, "train: Couldn't find any class folder")


def test_classes_must_agree(image_root):
    write_image(image_root / "train" / "cow" / "0.png")
    shutil.rmtree(image_root / "test" / "cat")
    refused(image_root, "train and test must have the same class folders; only one of them has cat, cow$")


@pytest.mark.parametrize("keep", [0, 20, 60, 100])
def test_an_unreadable_image_is_named(image_root, keep):
    path = image_root / "test" / "dog" / "0.png"
    path.write_bytes(path.read_bytes()[:keep])
    refused(image_root, f"cannot read image {re.escape(str(path))}: .+")


def test_an_image_of_more_than_8_bits_is_named(image_root):
    path = image_root / "train" / "cat" / "0.png"
    Image.fromarray(np.full((5, 6), 40_000, np.uint16)).save(path)
    refused(image_root, f"{re.escape(str(path))} has more than 8 bits a channel")


def test_sizes_must_agree_when_the_model_declares_none(image_root):
    write_image(image_root / "train" / "dog" / "9.png", 7, 5)
    refused(
        image_root,
        r"\S*9\.png is 7x5, others 6x5; a model that declares input_shape gets them resized, as model=module_cnn model\.in.*$",
    )


def test_pixel_statistics_equal_plain_arithmetic():
    images = torch.randint(0, 256, (7, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    mean, std = pixel_statistics(images)
    plain = images.double() / 255
    assert mean == pytest.approx(plain.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(plain.var((0, 2, 3), correction=0).sqrt().tolist())
    assert pixel_statistics(torch.full((2, 1, 3, 3), 51, dtype=torch.uint8)) == ((pytest.approx(0.2),), (1 / 255,))


def test_the_cifar10_subset_is_read(shared_data, tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    for kind in ("cat", "ship"):
        for part in ("train", "test"):
            (tmp_path / part / kind).symlink_to(shared_data / "cifar10_subset" / part / kind)
    task = load(make(tmp_path), input_shape=(3, 32, 32), batch_size=64)
    assert task.output_size == 2
    assert task.batch(0, 0, 64).inputs.shape == (64, 3, 32, 32)
