"""A user's own ``torch.utils.data.Dataset`` of pairs (input, class), as a task."""

import operator
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset as Examples
from torch.utils.data import IterableDataset
from torchvision.transforms.functional import pil_to_tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.memory import free_memory
from neuro_cli.core.seeds import seeded
from neuro_cli.task.classification import Classification, Data, Split
from neuro_cli.task.images import shape_text


class NoData(Examples[tuple[Tensor, int]]):
    """Stands in ``conf/task/dataset.yaml`` for what the user has to name."""

    def __len__(self) -> int:
        return 0


class Dataset(Classification):
    """``train``, ``test``: map-style datasets, of which ``dataset[i]`` is an input and the number of its class.

    An input is a tensor or an array of numbers of any shape, taken as it is, or an image: PIL's and tensors of uint8 are
    divided by 255, as torchvision's ToTensor does. Every example is read once, in order, before the first generation, and
    kept in memory: a random transform is drawn once for each, the same in every process.
    """

    name = "dataset"

    def __init__(self, train: Any, test: Any, fitness: str = "negative_cross_entropy", evaluation_batch: int = 500) -> None:
        super().__init__(fitness, evaluation_batch)
        for key, source in (("task.train", train), ("task.test", test)):
            if isinstance(source, IterableDataset) or not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
                raise ConfigError(key, _name(source), "must be a map-style dataset, with __len__ and __getitem__")
        self._sources = (train, test)
        self._data: Data | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Dataset":
        """A task of the same datasets: they may be large, and a run does not change them."""
        return type(self)(*self._sources, self.fitness, self.evaluation_batch)

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        if self._data is None:
            with _seeded():
                train, test = _read("task.train", self._sources[0]), _read("task.test", self._sources[1])
            named = (len(getattr(source, "classes", None) or ()) for source in self._sources)
            classes = max(*named, *(int(split.targets.max()) + 1 for split in (train, test)))
            texts = tuple(map(str, getattr(self._sources[0], "classes", None) or ()))
            self._data = Data(train, test, mean=(), std=(), classes=classes, names=texts if len(texts) == classes else ())
        return self._data

    def place(self, data: Data, device: torch.device) -> None:
        self._data = None  # what follows is another copy
        self._train, self._test = (
            Split(_channels_last(split.images).to(device), split.targets.to(device)) for split in (data.train, data.test)
        )

    def normalised(self, images: Tensor) -> Tensor:
        inputs = images.float().div_(255) if images.dtype == torch.uint8 else images
        if images.ndim != 4:
            return inputs
        inputs = inputs.permute(0, 3, 1, 2)
        return inputs if self.memory_format is torch.channels_last else inputs.clone(memory_format=self.memory_format)


def _read(key: str, source: Any) -> Split:
    """All examples of ``source``, uint8 where they are images, else float32. Raises ConfigError for one of another kind."""
    count = len(source)
    if isinstance(source, NoData):
        raise ConfigError(f"{key}._target_", None, "name the class of your dataset: my_package.MyDataset")
    if not count:
        raise ConfigError(key, _name(source), "it has no examples")
    first, _ = _example(key, source, 0)
    size, free = count * first.element_size() * first.numel(), free_memory()
    if free is not None and size > free:
        shape = shape_text(tuple(first.shape))
        text = f"{count} examples of {shape} take {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB of memory are free"
        raise ConfigError(key, _name(source), f"{text}: a run keeps all of them; take fewer, or smaller ones")
    inputs, targets = torch.empty(count, *first.shape, dtype=first.dtype), torch.empty(count, dtype=torch.int64)
    for number in range(count):
        example, targets[number] = _example(key, source, number)
        if example.shape != first.shape or example.dtype != first.dtype:
            kinds = [f"{shape_text(tuple(each.shape)) or 'one number'} ({each.dtype})" for each in (example, first)]
            raise ConfigError(key, _name(source), f"example {number} is {kinds[0]}, the first one {kinds[1]}; all must be alike")
        inputs[number] = example
    return Split(inputs, targets)


def _example(key: str, source: Any, number: int) -> tuple[Tensor, int]:
    """Input and class of one example. Raises ConfigError."""
    try:
        pair = source[number]
    except Exception as error:  # a user's dataset may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConfigError(key, _name(source), f"example {number} cannot be read: {type(error).__name__}: {reason}") from error
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ConfigError(key, _name(source), f"example {number} is a {type(pair).__name__}, not a pair (input, class)")
    try:
        target = operator.index(pair[1])
    except TypeError as error:
        text = f"example {number} has the target {pair[1]!r}; classes are integers from 0"
        raise ConfigError(key, _name(source), text) from error
    return _input(key, source, number, pair[0]), target


def _input(key: str, source: Any, number: int, value: Any) -> Tensor:
    if isinstance(value, Image.Image):
        value = pil_to_tensor(value)
    elif isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if not isinstance(value, Tensor):
        what = f"{type(value).__name__}; give the dataset a transform that makes a tensor"
    elif value.is_floating_point():
        return value.detach().to("cpu", torch.float32)
    elif value.dtype == torch.uint8:
        return value.cpu()
    else:
        what = f"tensor of {value.dtype}; floating numbers and uint8 are taken"
    raise ConfigError(key, _name(source), f"the input of example {number} is a {what}")


def _channels_last(inputs: Tensor) -> Tensor:
    """Images (N, C, H, W) as (N, H, W, C) in memory, so that whatever is picked is channels_last; other inputs as they are."""
    return inputs.permute(0, 2, 3, 1).contiguous() if inputs.ndim == 4 else inputs


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed the generators that a transform may draw from, and put them back."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(0)
    np.random.seed(0)
    try:
        with seeded(0):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _name(source: Any) -> str:
    return type(source).__name__
