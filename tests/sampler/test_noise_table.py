"""The file of the shared table: one for all, whole or not at all, and nobody else's numbers in it."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.sampler.noise_table import NoiseTable, private_folder, table_file

SIZE = 50_000


def bound(folder, seed: int = 1) -> NoiseTable:
    layout = ParameterLayout(torch.nn.Linear(30, 20))
    sampler = NoiseTable(SIZE, str(folder))
    sampler.bind(Noise(seed, layout.size, torch.device("cpu"), Threads(1)), 10, layout)
    return sampler


def test_the_table_is_normal_and_the_same_for_every_seed(tmp_path):
    table = np.fromfile(table_file(SIZE, tmp_path), np.float32)
    assert abs(table.mean()) < 5 / SIZE**0.5
    assert abs(table.std() - 1) < 5 / SIZE**0.5
    assert bound(tmp_path, 1).offsets(0, [0, 1]).tolist() != bound(tmp_path, 2).offsets(0, [0, 1]).tolist()
    assert len(list(tmp_path.iterdir())) == 1


def test_many_at_once_make_one_file(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: table_file(SIZE, tmp_path), range(8)))
    assert [path.name for path in tmp_path.iterdir()] == [next(iter(paths)).name]


def test_other_numbers_or_another_length_are_refused(tmp_path):
    path = table_file(SIZE, tmp_path)
    table = np.fromfile(path, np.float32)
    table[:2000] = 0
    table.tofile(path)
    with pytest.raises(ConfigError, match=r"sampler.folder=.*is not the table of noise; remove it"):
        bound(tmp_path)
    table[:100].tofile(path)
    with pytest.raises(ConfigError, match="is not the table"):
        bound(tmp_path)


def test_the_default_folder_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = private_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    os.chmod(folder, 0o777)
    with pytest.raises(ConfigError, match="others can write there"):
        private_folder()


def test_a_table_shorter_than_the_model_is_refused(tmp_path):
    layout = ParameterLayout(torch.nn.Linear(30, 20))
    with pytest.raises(ConfigError, match=r"sampler.size=100: must be above the model's 620 parameters"):
        NoiseTable(100, str(tmp_path)).bind(Noise(1, layout.size, torch.device("cpu"), Threads(1)), 10, layout)
