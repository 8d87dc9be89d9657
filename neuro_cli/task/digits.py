"""1,797 handwritten digits bundled with scikit-learn, 8x8 grey, without a download.

E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

import gzip
from functools import cache, lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.core.noise import random_permutation
from neuro_cli.task.classification import Classification, Data, Split
from neuro_cli.task.images import pixel_statistics, resizable_shape

PART = 256  # images resized at a time
SMALL = 3 * 32 * 32  # most numbers of an image for which a process keeps all 1,797 of them, 6 MB


class Digits(Classification):
    """1,437 training and 360 test examples, resized to the shape that the model declares (1x8x8 if none)."""

    name = "digits"
    input_shape = (1, 8, 8)
    output_size = 10

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        shape = resizable_shape(self.name, input_shape or (1, 8, 8))
        return (_read if prod(shape) > SMALL else _kept)(*shape)


def _read(channels: int, height: int, width: int) -> Data:
    """Return both parts, resized; callers do not write to them."""
    images, targets = bundled_digits()
    # part by part: all images in float32 at once would be the peak of a start's memory
    images = torch.cat([_bytes(part, (height, width)) for part in images.split(PART)]).expand(-1, channels, -1, -1)
    # every fifth example is a stratified fifth after a shuffle and a sort by class
    shuffled = random_permutation(0, 0, len(targets))
    order = shuffled[targets[shuffled].argsort(stable=True)]
    test = torch.zeros(len(order), dtype=torch.bool)
    test[::5] = True
    train, held_out = (Split(images[rows], targets[rows]) for rows in (order[~test], order[test]))
    mean, std = pixel_statistics(train.images)
    return Data(train, held_out, mean, std, classes=10)


_kept = lru_cache(maxsize=2)(_read)  # jobs of a sweep and seeds of a script read the same


def _bytes(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize images (N, 1, 8, 8) of levels 0 to 16 to ``size``, as bytes."""
    if size != (8, 8):
        images = F.interpolate(images, size, mode="bilinear", antialias=True)
    return (images * (255 / 16)).round_().clamp_(0, 255).byte()


@cache  # parsing the text takes as long as a short run's generations
def bundled_digits() -> tuple[Tensor, Tensor]:
    """Return images (1797, 1, 8, 8) float32 of levels 0 to 16, and targets (1797,) int64; callers do not write to them.

    Reads scikit-learn's file: importing ``sklearn.datasets`` would cost every rank 80 MB.
    """
    package = find_spec("sklearn")
    folders = list(package.submodule_search_locations or []) if package else []
    file = Path(folders[0], "datasets", "data", "digits.csv.gz") if folders else Path("sklearn")
    if not file.is_file():
        raise UserError("task=digits: scikit-learn's bundled digits are missing: pip install scikit-learn")
    with gzip.open(file, "rt") as text:
        table = torch.from_numpy(np.loadtxt(text, delimiter=","))
    return table[:, :-1].float().view(-1, 1, 8, 8), table[:, -1].long()
