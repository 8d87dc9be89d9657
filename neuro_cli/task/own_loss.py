"""Examples with targets of any kind, scored by any loss of torch: regression, tables, sequences."""

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import LOSS
from neuro_cli.task.base import Batch, Task
from neuro_cli.task.example_stream import ExampleStream
from neuro_cli.task.images import shape_text
from neuro_cli.task.map_style import Reader, as_inputs, channels_last, fields_of, name_of, seeded_generators, source_of

Loss = Callable[[Tensor, Tensor], Tensor]
TEST_LOSS = replace(LOSS, form=".4g", column=True)


class OwnLoss(Task):
    """``train``, ``test``: map-style datasets of pairs (input, target), or pairs of tensors; fitness is the negative loss.

    ``loss``: a class of torch.nn with a ``reduction``, or a function of (output, targets), both (B, ...), that gives a number
    for each example; further dimensions are averaged. Inputs may be integers (words), floating numbers, or images; targets
    integers or floating numbers of any shape. ``fields``: names of input and target where examples are dicts. Raises ConfigError.
    """

    name = "dataset"
    metrics = (TEST_LOSS,)
    score_names = ("fitness",)

    def __init__(self, train: Any, test: Any, loss: Any, fields: Any = None, evaluation_batch: int = 500) -> None:
        self._sources = (source_of("task.train", train), source_of("task.test", test))
        self._fields = fields_of(fields)
        self.evaluation_batch = integer("task.evaluation_batch", evaluation_batch, 1)
        self._given, self._loss = loss, each_of(loss)
        self._data: list[tuple[Tensor, Tensor]] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "OwnLoss":
        return type(self)(*self._sources, self._given, self._fields, self.evaluation_batch)

    def _read(self) -> list[tuple[Tensor, Tensor]]:
        if self._data is None:
            reader = Reader(self._fields, _target, words=True)
            with seeded_generators():
                keys = ("task.train", "task.test")
                self._data = [reader.read(key, source) for key, source in zip(keys, self._sources, strict=True)]
        return self._data

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        """``outputs``: numbers of a floating target, else the classes."""
        (inputs, targets), (_, others) = self._read()
        shape = list(inputs.shape[1:])
        numbers = math.prod(targets.shape[1:]) if targets.is_floating_point() else int(max(targets.max(), others.max())) + 1
        return {"input_shape": shape, "inputs": math.prod(shape), "outputs": numbers}

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        parts = self._read()
        self._data = None
        self.input_shape, size = tuple(parts[0][0].shape[1:]), len(parts[0][0])
        if input_shape is not None and tuple(input_shape) != self.input_shape:
            raise UserError(f"model expects {shape_text(tuple(input_shape))}, task=dataset gives {shape_text(self.input_shape)}")
        for place, what in enumerate(("inputs", "targets")):
            (train, test) = (part[place] for part in parts)
            if train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
                shapes = [f"{shape_text(tuple(each.shape[1:])) or 'one number'} ({each.dtype})" for each in (test, train)]
                raise UserError(f"task=dataset: test {what} are {shapes[0]}, training {what} {shapes[1]}")
        integer("batch_size", batch_size, 1)
        if batch_size > size:
            raise ConfigError("batch_size", batch_size, f"task=dataset has {size} training examples")
        self.batch_size = batch_size
        self._stream = ExampleStream(seed, size, device)
        self._train, self._test = ((channels_last(inputs).to(device), targets.to(device)) for inputs, targets in parts)
        self.evaluation_chunks = -(-len(self._test[1]) // self.evaluation_batch)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        first = generation * self.batch_size
        examples = self._stream.examples(first + start, first + stop)
        return Batch(as_inputs(self._train[0][examples], self.memory_format), self._train[1][examples])

    def _losses(self, module: nn.Module, batch: Batch) -> Tensor:
        """Loss of each example (B,) float32. Raises UserError for a loss that gives something else."""
        output = module(batch.inputs)
        output = output.float() if isinstance(output, Tensor) and output.is_floating_point() else output
        losses = self._loss(output, batch.targets)
        if not isinstance(losses, Tensor) or not losses.ndim or len(losses) != len(batch.targets):
            shape = shape_text(tuple(losses.shape)) if isinstance(losses, Tensor) else type(losses).__name__
            text = (
                f"gives {shape or 'one number'} for {len(batch.targets)} examples; a number for each is needed (reduction=none)"
            )
            raise ConfigError("task.loss", name_of(self._given), text)
        return losses.float().flatten(1).mean(1) if losses.ndim > 1 else losses.float()

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, 1)
        with torch.no_grad():
            return -self._losses(module, batch)[:, None]

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return self._losses(module, batch).mean()

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Sums (2,): loss, examples."""
        part = slice(chunk * self.evaluation_batch, (chunk + 1) * self.evaluation_batch)
        batch = Batch(as_inputs(self._test[0][part], self.memory_format), self._test[1][part])
        with torch.no_grad():
            losses = self._losses(module, batch).double()
        return np.array([losses.sum().item(), len(losses)])

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        return {TEST_LOSS.name: float(sums[0] / sums[1])}


def each_of(loss: Any) -> Loss:
    """``loss`` made to give a number for each example. Raises ConfigError for what cannot be called."""
    if not callable(loss):
        raise ConfigError("task.loss", name_of(loss), "must be a loss of torch.nn or a function of (output, targets)")
    if hasattr(loss, "reduction"):
        loss.reduction = "none"
        return loss
    try:
        takes = "reduction" in inspect.signature(loss).parameters
    except (TypeError, ValueError):
        takes = False
    return partial(loss, reduction="none") if takes else loss


def _target(key: str, source: Any, number: int, value: Any) -> Tensor:
    """Target of an example: float32, or int64. Raises ConfigError."""
    try:
        target = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        text = f"example {number} has the target {str(value)[:60]!r}: numbers are needed"
        raise ConfigError(key, name_of(source), text) from error
    return target.to(torch.float32 if target.is_floating_point() else torch.int64)
