"""A shared table of normals: the noise of a direction is M consecutive ones from a random place.

Salimans et al. 2017, section 2.1 and its code. The table is a file mapped into memory, so that the ranks of a node share one
copy. It depends on ``size`` only; the run's seed draws the places. A file with other numbers is refused. Directions that overlap
in the table are correlated, so make it much longer than the number of parameters.
"""

import os
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.kernels.compiled import block_kernels
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import OFFSET_STREAM, TABLE_STREAM, Noise
from neuro_cli.sampler.dense import Dense

TABLE_SEED = 0
PIECE = 1 << 20
PROBES = 16  # pieces of 1,024 numbers that are drawn again to verify an existing table


class NoiseTable(Dense):
    """Noise from a table of ``size`` normals, float32, more than the module has parameters.

    ``folder`` of the table's file, None for a private one of the user's in TMPDIR. ``antithetic``: members in mirrored pairs.
    Raises ConfigError, also for a file with other numbers.
    """

    def __init__(self, size: int = 1 << 25, folder: str | None = None, antithetic: bool = True) -> None:
        super().__init__(antithetic)
        self.size = integer("sampler.size", size, 2)
        self._folder = folder

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        super().bind(noise, population, layout)
        if self.size <= noise.size:
            raise ConfigError("sampler.size", self.size, f"must be above the model's {noise.size} parameters")
        self._file = table_file(self.size, None if self._folder is None else Path(self._folder))
        # shared as long as it is only read; torch wants a writable one
        table = torch.from_numpy(np.memmap(self._file, np.float32, "c").view(np.ndarray))
        self._table = table if noise.device.type == "cpu" else table.clone().to(noise.device)

    def offsets(self, generation: int, directions: Sequence[int]) -> np.ndarray:
        """Return the first place in the table of each direction's noise, (D,) int64 in [0, size - M]."""
        words = self.noise.words(generation, directions, 2, OFFSET_STREAM).cpu().numpy().astype(np.uint64)
        wide = (words[:, 0] << np.uint64(32)) | words[:, 1]
        return (wide % np.uint64(self.size - self.noise.size + 1)).astype(np.int64)

    def draw(self, generation: int, first: int, count: int, dtype: torch.dtype) -> Tensor:
        offsets = torch.from_numpy(self.offsets(generation, range(first, first + count))).to(self._table.device)
        # a row of this view is the noise from each place on: one call copies all rows, slices would be a call each
        windows = self._table.as_strided((self.size - self.noise.size + 1, self.noise.size), (1, 1))
        return windows.index_select(0, offsets).to(dtype)

    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.draw(generation, direction, 1, dtype)[0]

    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        if self._table.device.type != "cpu":
            return super().sums(weights, moments, generation, directions, start, stop)
        offsets = self.offsets(generation, directions)
        out = torch.empty(len(weights), stop - start, dtype=torch.float32)
        kinds, weights = np.asarray(moments, np.int64), np.ascontiguousarray(weights)
        table = self._table.numpy()

        def piece(bounds: tuple[int, int]) -> None:
            low, high = bounds
            block_kernels.table_sums(table, offsets, weights, kinds, low, out[:, low - start : high - start].numpy())

        count = self.noise.threads.count
        cuts = [start + (stop - start) * part // count for part in range(count + 1)]
        self.noise.threads.map(piece, pairwise(cuts))
        return out


def table_file(size: int, folder: Path | None) -> Path:
    """Return the file with the table of ``size`` normals, written if it does not exist. Raises ConfigError for a wrong one.

    No rank sees a part of it: the first rank to finish a file moves it into place.
    """
    noise = Noise(TABLE_SEED, size, torch.device("cpu"), Threads(1))
    folder = folder or private_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"noise_table_{size}.f32"
    if not path.exists():
        _write(path, noise)
    _verify(path, noise)
    return path


def private_folder() -> Path:
    """Return a folder that only the user can write to: others could put numbers into a table, and so into a run."""
    folder = Path(tempfile.gettempdir()) / f"neuro-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise ConfigError("sampler.folder", folder, "others can write there; name a folder of your own")
    return folder


def _write(path: Path, noise: Noise) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        for low in range(0, noise.size, PIECE):
            file.write(noise.draw(0, [0], low, min(low + PIECE, noise.size), TABLE_STREAM)[0].numpy().tobytes())
    os.replace(file.name, path)


def _verify(path: Path, noise: Noise) -> None:
    table = np.memmap(path, np.float32, "r")
    right = len(table) == noise.size
    for probe in range(PROBES if right else 0):
        low = (noise.size - 1024) * probe // PROBES
        low, high = max(low, 0), min(max(low, 0) + 1024, noise.size)
        right = right and np.array_equal(table[low:high], noise.draw(0, [0], low, high, TABLE_STREAM)[0].numpy())
    if not right:
        raise ConfigError("sampler.folder", path.parent, f"{path.name} there is not the table of noise; remove it")
