"""Download of data sets by torchvision into a folder, and reading them there."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.classification import Classification, Data, Split


class TorchvisionTask(Classification):
    """Data set of torchvision below the folder ``root``. ``download``: fetch missing files.

    Subclasses set torchvision's class, the folder and files below ``root`` that it needs, their kind in words, and the mean and
    deviation of the training pixels.
    """

    source: ClassVar[Any]
    folder: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    kind: ClassVar[str]
    mean: ClassVar[tuple[float, ...]]
    std: ClassVar[tuple[float, ...]]
    output_size = 10

    def __init__(
        self, root: str, download: bool, fitness: str, evaluation_batch: int, metrics: Any = None, shift: int = 0,
        distort: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(fitness, evaluation_batch, metrics, shift, distort)
        if not isinstance(root, str) or not root:
            raise ConfigError("task.root", root, "must be a folder")
        if not isinstance(download, bool):
            raise ConfigError("task.download", download, "must be true or false")
        self.root, self.download = Path(root).expanduser(), download

    def found(self) -> bool:
        """Return whether every file of torchvision's data set is below ``root``."""
        return all((self.root / self.folder / file).is_file() for file in self.files)

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        if self.download:
            self._fetch()
        if not self.found():
            raise ConfigError(
                "task.root", self.root, f"no {self.folder} folder with {self.kind} there; task.download=true fetches it"
            )
        train, test = self._split(train=True), self._split(train=False)
        return Data(train, test, self.mean, self.std, self.output_size, self._names)

    def _fetch(self) -> None:
        try:
            self.source(self.root, download=True)
        except Exception as error:  # sockets, HTTP, archives and checksums each raise their own kind
            if self.found():
                return  # all files exist; reading them says what is wrong
            text = f"fetching {self.name} into {self.root} failed: {one_line(error)}"
            raise ConfigError("task.download", "true", text) from error

    def _split(self, train: bool) -> Split:
        try:
            source = self.source(self.root, train=train)
        except Exception as error:  # a damaged file shows as almost any exception
            remedy = "delete it, and task.download=true fetches it again"
            text = f"{self.folder} there is damaged ({one_line(error)}); {remedy}"
            raise ConfigError("task.root", self.root, text) from error
        self._names = tuple(map(str, getattr(source, "classes", ())))
        return Split(channels_first(source.data), torch.as_tensor(source.targets, dtype=torch.int64))


def channels_first(images: Tensor | np.ndarray) -> Tensor:
    """Convert (N, H, W) or (N, H, W, C) to (N, C, H, W)."""
    images = torch.as_tensor(images)
    return images[:, None] if images.ndim == 3 else images.permute(0, 3, 1, 2)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
