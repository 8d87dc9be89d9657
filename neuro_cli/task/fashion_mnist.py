"""Fashion-MNIST: articles of clothing, 28x28 grey, 60,000 for training and 10,000 for test.

H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST", 2017.
"""

import gzip
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torchvision
from torch import Tensor
from torchvision.datasets.mnist import read_sn3_pascalvincent_tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.classification import Data, Split
from neuro_cli.task.mnist import MNIST
from neuro_cli.task.torchvision_download import channels_first, one_line


class FashionMNIST(MNIST):
    """Fashion-MNIST in MNIST's files from ``root``, else from gzipped ones in ``system_folder`` (or null)."""

    name = "fashion_mnist"
    source = torchvision.datasets.FashionMNIST
    folder = "FashionMNIST/raw"
    mean = (0.2860,)
    std = (0.3530,)

    def __init__(
        self, root: str, download: bool, system_folder: str | None, fitness: str, evaluation_batch: int, metrics: Any = None,
        shift: int = 0, distort: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(root, download, fitness, evaluation_batch, metrics, shift, distort)
        self.packed = [Path(system_folder) / f"{file}.gz" for file in self.files] if system_folder else []

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        if self.found() or not self.packed or not all(file.is_file() for file in self.packed):
            return super().read(input_shape)
        train_images, train_targets, test_images, test_targets = map(self._unpacked, self.packed)
        train = Split(channels_first(train_images), train_targets.long())
        test = Split(channels_first(test_images), test_targets.long())
        return Data(train, test, self.mean, self.std, self.output_size)

    def _unpacked(self, path: Path) -> Tensor:
        try:
            with NamedTemporaryFile() as file:  # torchvision reads from a path
                file.write(gzip.decompress(path.read_bytes()))
                file.flush()
                return read_sn3_pascalvincent_tensor(file.name)
        except Exception as error:  # torchvision asserts what it reads
            allowed = f"{path.name}: no gzipped IDX file ({one_line(error)})"
            raise ConfigError("task.system_folder", path.parent, allowed) from error
