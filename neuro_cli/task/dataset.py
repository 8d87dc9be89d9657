"""User's own ``torch.utils.data.Dataset`` as a task: pairs (input, class), or any targets with a loss of torch."""

import operator
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.seeds import seeded
from neuro_cli.task.adapters import columns_of, sources_of
from neuro_cli.task.classification import Classification, Data, Split
from neuro_cli.task.inputs import Inputs, with_columns
from neuro_cli.task.map_style import NoData as NoData
from neuro_cli.task.map_style import Reader, as_inputs, channels_last, fields_of, name_of
from neuro_cli.task.own_loss import OwnLoss


class Dataset(Classification):
    """Dataset of the user; ``train``, ``test``: map-style, of pairs (input, number of its class), or pairs of tensors.

    An input is a tensor or array of numbers of any shape, taken as it is, or an image. PIL images and uint8 tensors are divided
    by 255, as by torchvision's ToTensor. Every example is read once, in order, before the first generation, and stays in
    memory. A random transform is therefore drawn once for each, the same in every process. ``fields``: names of input and
    target where examples are dicts. ``most``: examples that are read of an iterable. Frames of pandas, and tables by their paths,
    have a target column, the last or that of ``fields`` (:mod:`neuro_cli.task.adapters`). With a ``loss`` the task is an
    :class:`neuro_cli.task.own_loss.OwnLoss`. Raises ConfigError.
    """

    name = "dataset"

    def __new__(
        cls,
        train: Any,
        test: Any,
        fitness: str = "negative_cross_entropy",
        evaluation_batch: int = 500,
        fields: Any = None,
        loss: Any = None,
        metrics: Any = None,
        most: int | None = None,
    ) -> Any:
        if loss is None:
            return super().__new__(cls)
        return OwnLoss(train, test, loss, fields, evaluation_batch, metrics, fitness, most)

    def __init__(
        self,
        train: Any,
        test: Any,
        fitness: str = "negative_cross_entropy",
        evaluation_batch: int = 500,
        fields: Any = None,
        loss: Any = None,
        metrics: Any = None,
        most: int | None = None,
    ) -> None:
        super().__init__(fitness, evaluation_batch, metrics)
        self._fields = fields_of(fields)
        self._sources = sources_of(train, test, self._fields, most)
        self._data: Data | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "Dataset":
        """Return a task of the same datasets: they may be large, and a run does not change them."""
        return type(self)(*self._sources, self.fitness, self.evaluation_batch, self._fields, None, self.given)

    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        if self._data is None:
            reader = Reader(self._fields, _class)
            with seeded(0):  # transforms may draw
                train, test = (Split(*reader.read(key, source)) for key, source in zip(_KEYS, self._sources, strict=True))
            named = (len(getattr(source, "classes", None) or ()) for source in self._sources)
            classes = max(*named, *(int(split.targets.max()) + 1 for split in (train, test)))
            texts = tuple(map(str, getattr(self._sources[0], "classes", None) or ()))
            self._data = Data(train, test, mean=(), std=(), classes=classes, names=texts if len(texts) == classes else ())
        return self._data

    def inputs(self) -> Inputs:
        return with_columns(super().inputs(), columns_of(self._sources[0]))

    def place(self, data: Data, device: torch.device) -> None:
        self._data = None  # frees memory before the next copy
        self._train, self._test = (
            Split(channels_last(split.images).to(device), split.targets.to(device)) for split in (data.train, data.test)
        )

    def normalised(self, images: Tensor) -> Tensor:
        return as_inputs(images, self.memory_format)


_KEYS = ("task.train", "task.test")


def _class(key: str, source: Any, number: int, value: Any) -> Tensor:
    """Return the class of an example. Raises ConfigError."""
    try:
        return torch.tensor(operator.index(value), dtype=torch.int64)
    except TypeError as error:
        text = f"example {number} has the target {value!r}; classes are integers from 0; other targets need task.loss._target_="
        raise ConfigError(key, name_of(source), text) from error
