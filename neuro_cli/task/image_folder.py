"""User's own images: ``root`` has train/ and test/, each with one folder of images per class."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from PIL import Image

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.classification import Classification, Data, Split
from neuro_cli.task.images import CHANNELS, pixel_statistics, resizable_shape
from neuro_cli.task.torchvision_download import one_line

RESIZES = "a model that declares input_shape gets them resized, as model=module_cnn model.input_shape=[3,32,32]"


class ImageFolder(Classification):
    """Images from folders, whose names in alphabetical order are the classes, normalised by the training images' statistics.

    Images are resized (bilinear, antialiased, without regard to the aspect ratio) to the shape that the model declares. If it
    declares none, they are colour and must be of one size.
    """

    name = "image_folder"

    def __init__(
        self, root: str, fitness: str, evaluation_batch: int, metrics: Any = None, shift: int = 0, distort: float = 0.0
    ) -> None:
        super().__init__(fitness, evaluation_batch, metrics, shift, distort)
        if not isinstance(root, str) or not root:
            raise ConfigError("task.root", root, "must be a folder")
        self.root = Path(root).expanduser()

    def sizes(self, input_shape: tuple[int, ...] | None) -> tuple[tuple[int, ...], int]:
        train, _ = self._parts()
        return self._shape(train, input_shape), len(train.classes)

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        parts = self._parts()
        shape = self._shape(parts[0], input_shape)
        train, test = (self._split(part.samples, shape, resize=input_shape is not None) for part in parts)
        mean, std = pixel_statistics(train.images)
        return Data(train, test, mean, std, len(parts[0].classes), tuple(parts[0].classes))

    def _parts(self) -> list[torchvision.datasets.ImageFolder]:
        """Return the images for training and for the test, which have the same classes."""
        parts = [self._list(name) for name in ("train", "test")]
        classes, others = (part.classes for part in parts)
        if classes != others:
            lone = ", ".join(sorted(set(classes) ^ set(others)))
            raise self._error(f"train and test must have the same class folders; only one of them has {lone}")
        return parts

    def _shape(self, train: torchvision.datasets.ImageFolder, input_shape: tuple[int, ...] | None) -> tuple[int, int, int]:
        if input_shape is not None:
            return resizable_shape(self.name, input_shape)
        first = self._decoded(train.samples[0][0], "RGB")
        return 3, first.height, first.width

    def _list(self, name: str) -> torchvision.datasets.ImageFolder:
        folder = self.root / name
        if not folder.is_dir():
            raise self._error(f"no {name} folder there; it must hold train and test, each with a folder for each class")
        try:
            return torchvision.datasets.ImageFolder(folder)
        except OSError as error:
            raise self._error(f"{name}: {one_line(error)}") from error

    def _split(self, samples: list[tuple[str, int]], shape: tuple[int, int, int], resize: bool) -> Split:
        channels, height, width = shape
        images = np.empty((len(samples), height, width, channels), np.uint8)
        for row, (path, _) in zip(images, samples, strict=True):
            image = self._decoded(path, CHANNELS[channels])
            if image.size != (width, height):
                if not resize:
                    size = f"{path} is {image.width}x{image.height}, others {width}x{height}"
                    raise self._error(f"{size}; {RESIZES}")
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            row[...] = np.asarray(image).reshape(row.shape)
        targets = torch.tensor([target for _, target in samples], dtype=torch.int64)
        return Split(torch.from_numpy(images).permute(0, 3, 1, 2), targets)

    def _decoded(self, path: str, mode: str) -> Image.Image:
        try:
            with Image.open(path) as image:
                deep = image.mode[0] in "IF"
                converted = image.convert(mode)
        except Exception as error:  # a damaged file shows as almost any exception
            raise self._error(f"cannot read image {path}: {one_line(error)}") from error
        if deep:
            # conversion would turn all but the darkest pixels white
            raise self._error(f"{path} has more than 8 bits a channel; convert it to 8 bits")
        return converted

    def _error(self, text: str) -> ConfigError:
        return ConfigError("task.root", str(self.root), text)
