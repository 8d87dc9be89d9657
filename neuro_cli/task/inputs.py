"""Inputs of a trained network: their shape, and how an image becomes one, stored in the run folder for use without data."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import UserError
from neuro_cli.task.images import CHANNELS, shape_text

if TYPE_CHECKING:
    from PIL import Image

TYPES = {"float32": torch.float32, "int32": torch.int32, "int64": torch.int64}
MOST_CLASSES, MOST_SIZES, LONGEST_NAME = 10_000, 8, 200


@dataclass(frozen=True)
class Inputs:
    """Inputs (B, *``shape``) of type ``dtype``: float32 | int32 | int64. ``classes``: names of the outputs, () where unknown.

    ``images``: inputs come from images of 8 bits (C, H, W), divided by 255, then less ``mean`` and over ``std`` (C,) unless
    these are empty. ``columns``: of the table that inputs come from, one for each number: its name, and a text whose presence
    the number says, or None where it is the column's own. Raises ValueError for fields of another kind.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    images: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()
    columns: tuple[tuple[str, str | None], ...] = ()

    def __post_init__(self) -> None:
        sizes = [type(size) is int and 0 < size < 2**31 for size in self.shape]
        if len(sizes) > MOST_SIZES or not all(sizes):
            raise ValueError(f"shape={self.shape}: must be at most {MOST_SIZES} positive sizes")
        if self.dtype not in TYPES:
            raise ValueError(f"dtype={self.dtype}: must be {', '.join(TYPES)}")
        if not isinstance(self.images, bool) or (self.images and len(self.shape) != 3):
            raise ValueError(f"images={self.images}: must be true or false, true with a shape (C, H, W)")
        for name, values in (("mean", self.mean), ("std", self.std)):
            finite = all(type(value) is float and math.isfinite(value) for value in values)
            if not finite or (values and (not self.images or len(values) != self.shape[0] or len(self.mean) != len(self.std))):
                raise ValueError(f"{name}={values}: must be a finite number for each channel of the images, or empty")
        if not all(value > 0 for value in self.std):
            raise ValueError(f"std={self.std}: must be above 0")
        texts = all(isinstance(name, str) and len(name) <= LONGEST_NAME for name in self.classes)
        if len(self.classes) > MOST_CLASSES or not texts:
            raise ValueError(f"classes: must be at most {MOST_CLASSES} texts of at most {LONGEST_NAME} characters")
        if self.columns and (
            len(self.shape) != 1 or len(self.columns) != self.shape[0] or not all(map(_is_column, self.columns))
        ):
            raise ValueError("columns: must be a name, and a text or null, for each number of an input")

    def normalised(self, images: Tensor) -> Tensor:
        """Convert images (B, C, H, W) uint8 to inputs (B, C, H, W) float32, with the bits of training and test."""
        # channels on the last axis, as in the tasks
        values = images.permute(0, 2, 3, 1).float()
        if not self.mean:
            return values.div_(255).permute(0, 3, 1, 2).contiguous()
        std = torch.tensor(self.std, dtype=torch.float64)
        scale, shift = (1 / (255 * std)).float(), (-torch.tensor(self.mean, dtype=torch.float64) / std).float()
        return values.mul_(scale.to(images.device)).add_(shift.to(images.device)).permute(0, 3, 1, 2).contiguous()

    def of_images(self, images: "Sequence[Image.Image | np.ndarray | Tensor | str | Path]") -> Tensor:
        """Convert pictures, files of pictures, or arrays of uint8 to inputs, resized (bilinear, antialiased) if needed.

        Raises UserError for anything else, and for networks that take no images.
        """
        if not self.images or self.shape[0] not in CHANNELS:
            form = f"{shape_text(self.shape)} of {self.dtype}"
            raise UserError(f"the network takes no images: its inputs are {form}, in a .npy, .csv or .parquet")
        return self.normalised(torch.stack([self._pixels(image) for image in images]))

    def _pixels(self, image: "Image.Image | np.ndarray | Tensor | str | Path") -> Tensor:
        """Return an image (C, H, W) uint8 of the network's size."""
        if isinstance(image, Tensor | np.ndarray):
            return self._array(torch.as_tensor(image))
        picture = opened(Path(image), CHANNELS[self.shape[0]]) if isinstance(image, str | Path) else image
        picture = picture.convert(CHANNELS[self.shape[0]])
        size = (self.shape[2], self.shape[1])
        if picture.size != size:
            from PIL import Image

            picture = picture.resize(size, Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(picture)).reshape(*size[::-1], -1).permute(2, 0, 1)

    def _array(self, image: Tensor) -> Tensor:
        if image.dtype != torch.uint8 or tuple(image.shape) != self.shape:
            kind = f"{shape_text(tuple(image.shape))} of {image.dtype}"
            raise UserError(f"an image is {kind}: the network takes {shape_text(self.shape)} of uint8, or pictures of any size")
        return image


class ImageHook:
    """Forward pre-hook that converts images: uint8 tensors (B, C, H, W), pictures, files, and lists of these.

    Floating tensors pass unchanged as inputs.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __call__(self, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not arguments:
            return None
        from PIL import Image

        first, *others = arguments
        if isinstance(first, Tensor) and first.dtype == torch.uint8:
            inputs = self._normalised(first)
        elif isinstance(first, Image.Image | str | Path):
            inputs = self.inputs.of_images([first])
        elif isinstance(first, list | tuple) and first and isinstance(first[0], Image.Image | np.ndarray | Tensor | str | Path):
            inputs = self.inputs.of_images(first)
        else:
            return None
        parameter = next((each for each in module.parameters() if each.is_floating_point()), inputs)
        return inputs.to(parameter.device, parameter.dtype), *others

    def _normalised(self, images: Tensor) -> Tensor:
        if tuple(images.shape[1:]) != self.inputs.shape:
            actual, expected = (shape_text(tuple(shape)) for shape in (images.shape[1:], self.inputs.shape))
            raise UserError(f"images are {actual}: the network takes {expected} (pictures and files of any size)")
        return self.inputs.normalised(images)


def _is_column(column: Any) -> bool:
    texts = isinstance(column, tuple) and len(column) == 2 and isinstance(column[0], str)
    return texts and (column[1] is None or isinstance(column[1], str)) and all(len(text or "") <= LONGEST_NAME for text in column)


def with_columns(inputs: Inputs, columns: tuple[tuple[str, str | None], ...]) -> Inputs:
    """Return ``inputs`` with the columns of their table; too many, or with long names, are left out."""
    short = len(columns) <= MOST_CLASSES and all(map(_is_column, columns))
    return replace(inputs, columns=columns) if short else inputs


def opened(path: Path, mode: str) -> "Image.Image":
    """Read the picture in the file ``path``, converted to ``mode``: L | RGB. Raises UserError.

    Refuses a picture of more than 89 million pixels before decoding it: a small file can contain one.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as picture:
                deep = picture.mode[0] in "IF"
                converted = picture.convert(mode)
    except Exception as error:  # a damaged file shows as almost any exception
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path}: cannot be read as an image: {reason}") from error
    if deep:
        raise UserError(
            f"{path}: it has more than 8 bits a channel; convert it to 8 bits"
        )  # conversion would turn all but the darkest pixels white
    return converted


def image_inputs(shape: Sequence[int], images: bool, mean: Sequence[float], std: Sequence[float], names: Sequence[str]) -> Inputs:
    """Return the inputs of a task of images with classes ``names``."""
    return Inputs(tuple(shape), "float32", images, tuple(map(float, mean)), tuple(map(float, std)), class_names(names))


def class_names(names: Sequence[Any]) -> tuple[str, ...]:
    """Return the names as texts; long ones are cut, and too many are left out."""
    return tuple(str(name)[:LONGEST_NAME] for name in names) if len(names) <= MOST_CLASSES else ()


def as_plain(inputs: Inputs) -> dict[str, Any]:
    """Return ``inputs`` as a dict of lists and values; columns are in it where there are any."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(inputs).items()}
    columns = [list(column) for column in plain.pop("columns")]
    return plain | ({"columns": columns} if columns else {})


def from_plain(node: Any) -> Inputs:
    """Return the inputs that :func:`as_plain` declared. Raises ValueError for anything else."""
    if not isinstance(node, dict) or "shape" not in node:
        raise ValueError("it must have the shape of an input, and may have dtype, images, mean, std, classes")
    fields: dict[str, Any] = {str(name): tuple(value) if isinstance(value, list) else value for name, value in node.items()}
    if isinstance(columns := fields.get("columns"), tuple):
        fields["columns"] = tuple(tuple(each) if isinstance(each, list) else each for each in columns)
    try:
        return Inputs(**fields)
    except TypeError as error:
        raise ValueError(" ".join(str(error).split())[:100]) from error
