"""A user's own dataset as a task: the order of examples, what inputs may be, every line that a user may see, and runs."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.inside import neuro_inside, one_line, well
from support.made_data import load
from torch import nn
from torch.utils.data import Dataset as Examples
from torch.utils.data import IterableDataset, TensorDataset

from neuro_cli.cli.python_calls import evaluate, train
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.task import map_style
from neuro_cli.task.dataset import Dataset
from neuro_cli.task.digits import Digits

OWN = """
import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset

class Halves(Dataset):
    '''The bundled digits as vectors of 64 numbers.'''

    def __init__(self, first: int, count: int) -> None:
        self.data = load_digits()
        self.rows = range(first, first + count)
        self.classes = list(range(10))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        row = self.rows[number]
        return torch.tensor(self.data.data[row], dtype=torch.float32) / 16, self.data.target[row]

class Net(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 10)
"""


class Made(Examples[tuple[Any, Any]]):
    """Examples by number from a function."""

    def __init__(self, make: Any, count: int = 4) -> None:
        self._make, self._count, self.read = make, count, 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        self.read += 1
        return self._make(number)


class Stream(IterableDataset[tuple[Any, Any]]):
    """Has no order of numbers."""

    def __iter__(self) -> Any:
        return iter(())


def good(number: int) -> tuple[torch.Tensor, int]:
    return torch.full((1, 4, 4), float(number)), number % 2


def test_examples_come_in_the_order_and_with_the_bits_of_another_task():
    digits = load(Digits("negative_cross_entropy", 500), batch_size=7)
    data = digits.read(None)
    train_part, test_part = (
        TensorDataset(digits.normalised(split.images.permute(0, 2, 3, 1).contiguous()), split.targets)
        for split in (data.train, data.test)
    )
    task = load(Dataset(train_part, test_part), batch_size=7)
    assert (task.input_shape, task.output_size) == ((1, 8, 8), 10)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    for generation in (0, 3, 205):  # the last one in a second epoch
        ours, theirs = task.batch(generation, 2, 7), digits.batch(generation, 2, 7)
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.targets, theirs.targets)
    assert np.array_equal(task.evaluate_chunk(net, 0), digits.evaluate_chunk(net, 0))


def test_images_are_divided_by_255_and_kept_as_bytes():
    pixels = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 3), dtype=np.uint8)
    made = Made(lambda number: (Image.fromarray(pixels[number]), np.int64(number % 2)))
    task = load(Dataset(made, made), batch_size=4)
    assert task._train.images.dtype == torch.uint8
    batch = task.batch(0, 0, 4)
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert sorted(map(tuple, batch.inputs.mul(255).round().byte().permute(0, 2, 3, 1).flatten(1).tolist())) == sorted(
        map(tuple, pixels.reshape(4, -1).tolist())
    )


def test_every_example_is_read_once_and_a_random_transform_drawn_once():
    def make(number: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([random.random(), np.random.rand(), torch.rand(()).item(), number]), number % 2

    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    one, other = Made(make), Made(make)
    tasks = [Dataset(one, one), Dataset(other, other)]
    assert tasks[0].model_arguments(None) == {"input_shape": [4], "inputs": 4, "outputs": 2}
    for task in tasks:
        load(task)
    assert one.read == 2 * (4 + 1)  # train and test, and the first one twice for its shape
    assert torch.equal(tasks[0].batch(5, 0, 4).inputs, tasks[1].batch(5, 0, 4).inputs)
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]
    assert torch.equal(torch.get_rng_state(), states[2])


def test_inputs_of_any_shape_and_more_classes_than_occur():
    for shape in ((), (3,), (2, 3), (1, 2, 3), (2, 1, 2, 3)):
        made = Made(lambda number, shape=shape: (torch.full(shape, float(number)), number % 2))
        made.classes = ["a", "b", "c"]
        task = load(Dataset(made, Made(made._make)))
        assert (task.input_shape, task.output_size) == (shape, 3)
        assert task.batch(0, 0, 4).inputs.shape == (4, *shape)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda n: good(n)[0], "example 0 is a Tensor, not a pair"),
        (lambda n: (good(n)[0], 0.5), r"example 0 has the target 0\.5; classes are integers from 0"),
        (lambda n: (good(n)[0], torch.tensor(1.0)), r"example 0 has the target tensor\(1\.\); classes are integers"),
        (lambda n: (good(n)[0], "cat"), r"example 0 has the target 'cat'; "),
        (lambda n: (torch.zeros(3 + n // 3), 0), r"example 3 is 4 \(torch\.float32\), the first one 3 \(torch"),
        (lambda n: (torch.zeros(3, dtype=torch.uint8 if n == 1 else torch.float32), 0), r"example 1 is 3 \(torch\.uint8\)"),
        (lambda n: (torch.zeros(3, dtype=torch.int64), 0), r"the input of example 0 is a .*int64; .*, and tokens with a loss: "),
        (lambda n: ("text", 0), "the input of example 0 is a str; give the dataset a transform that makes a tensor"),
        (lambda n: {}["file"], "example 0 cannot be read: KeyError: 'file'"),
        (lambda n: (good(n)[0], [0, 1, 1][n]), "example 3 cannot be read: IndexError: list index out of range"),
    ],
)  # fmt: skip
def test_an_example_of_another_kind_is_named(make, line):
    with pytest.raises(ConfigError, match=f"^task.train=Made: {line}"):
        load(Dataset(Made(make), Made(good)))


def test_datasets_that_are_none_are_refused(monkeypatch):
    for source in (Stream(), 3, (value for value in ())):
        with pytest.raises(
            ConfigError, match=rf"^task\.test={type(source).__name__}: (must be a map-style dataset|an iterable may have no end)"
        ):
            Dataset(Made(good), source)
    with pytest.raises(ConfigError, match=r"^task\.test=Made: it has no examples$"):
        load(Dataset(Made(good), Made(good, 0)))
    with pytest.raises(UserError, match=r"^task=dataset: test images are 3, training images 1x4x4$"):
        load(Dataset(Made(good), Made(lambda number: (torch.zeros(3), 0))))
    with pytest.raises(UserError, match=r"^task=dataset: training target -1 is none of the classes 0 to 1$"):
        load(Dataset(Made(lambda number: (good(number)[0], -1)), Made(good)))
    monkeypatch.setattr(map_style, "free_memory", lambda: 100.0)
    with pytest.raises(ConfigError, match=r"^task\.train=Made: 4 examples of 1x4x4 take 2\.56e-07 GB, and 1e-07 GB of memory"):
        load(Dataset(Made(good), Made(good)))


def test_a_run_on_the_users_dataset_by_name_and_by_object(tmp_path, monkeypatch):
    (tmp_path / "own_data.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small = ("model._target_=own_data.Net", "population=8", "batch_size=16", "threads=1", "generations=2")
    parts = ("task.train._target_=own_data.Halves", "+task.train.first=0", "+task.train.count=1200")
    parts += ("task.test._target_=own_data.Halves", "+task.test.first=1200", "+task.test.count=500")
    assert one_line(neuro_inside("train", "task=dataset", *small, cwd=tmp_path)) == (
        "task.train._target_=None: name the class of your dataset, my_package.MyDataset, or task.train=NAME.csv"
    )
    well(neuro_inside("train", "task=dataset", *parts, *small, "hydra.run.dir=named", cwd=tmp_path))
    assert one_line(neuro_inside("evaluate", "named", cwd=tmp_path)).endswith("pass trust=own_data if this run folder is yours")
    import own_data

    task = Dataset(train=own_data.Halves(0, 1200), test=own_data.Halves(1200, 500))
    result = train(*small, task=task, folder="object")
    named = json.loads(Path("named/summary.json").read_text())
    assert result.summary["parameters_sha256"] == named["parameters_sha256"]
    assert evaluate("named", trust="own_data") == evaluate("object", task=task, trust="own_data")
    assert evaluate("object", task=task, trust=["own_data"])["test_loss"] == named["test_loss"]
    sys.modules.pop("own_data")
