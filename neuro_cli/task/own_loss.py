"""Task with targets of any kind, scored by any loss of torch: regression, tables, sequences."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY, LOSS, Metric
from neuro_cli.core.seeds import seeded
from neuro_cli.task.adapters import columns_of, sources_of
from neuro_cli.task.base import Batch
from neuro_cli.task.batch_metrics import WHOLE, BatchJudged, outputs_of
from neuro_cli.task.example_order import ExampleStream
from neuro_cli.task.images import shape_text
from neuro_cli.task.inputs import Inputs, class_names, with_columns
from neuro_cli.task.loss_parts import LossParts
from neuro_cli.task.map_style import Reader, as_inputs, channels_last, fields_of, name_of

TEST_LOSS = replace(LOSS, form=".4g", column=True)


class OwnLoss(BatchJudged):
    """Task scored by the user's loss; fitness is the negative loss.

    ``train``, ``test``: map-style datasets of pairs (input, target), or pairs of tensors. ``loss``: a class of torch.nn with a
    ``reduction``, or a function of (output, targets), both (B, ...), that gives a number for each example; other dimensions are
    averaged. Fitness, ``test_loss`` and gradient follow the loss's own value for a batch or the test set, with class weights and
    ignored targets. A loss of classes has an accuracy too: torch's own, or a function where K classes meet outputs (B, K). Inputs
    are integers (tokens), floating numbers, or images; targets are integers or floating numbers of any shape. ``fields``: names
    of input and target where examples are dicts. ``most``: examples that are read of an iterable. Raises ConfigError.
    """

    name = "dataset"
    metrics: tuple[Metric, ...] = (TEST_LOSS,)

    def __init__(
        self,
        train: Any,
        test: Any,
        loss: Any,
        fields: Any = None,
        evaluation_batch: int = 500,
        metrics: Any = None,
        fitness: str = "negative_loss",
        most: int | None = None,
    ) -> None:
        self.judge_by(metrics, fitness)
        self._fields = fields_of(fields)
        self._sources = sources_of(train, test, self._fields, most)
        self.evaluation_batch = integer("task.evaluation_batch", evaluation_batch, 1)
        self._loss, self._weighted, self._compared = LossParts(loss), False, False
        self._accuracy = False
        self._data: list[tuple[Tensor, Tensor]] | None = None

    @property
    def score_names(self) -> tuple[str, ...]:
        if self.scored_by == WHOLE:
            return ("fitness", "loss")
        return ("fitness", "weight") if self._weighted else ("fitness",)

    def _read(self) -> list[tuple[Tensor, Tensor]]:
        if self._data is None:
            reader = Reader(self._fields, _target, words=True)
            with seeded(0):  # transforms may draw
                keys = ("task.train", "task.test")
                self._data = [reader.read(key, source) for key, source in zip(keys, self._sources, strict=True)]
        return self._data

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        """Return sizes; ``outputs`` is the number of values of a floating target, or of classes."""
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
        self.count_chunks(len(self._test[1]))
        targets = torch.cat([part[1] for part in parts]) if self._test[1].dim() == 1 else parts[1][1]
        classes = targets.dim() == 1 and not targets.is_floating_point() and len(targets) > 0
        self._classes = int(targets.max()) + 1 if classes else 0  # 0: a target is no number of a class
        self._measure(classes and self._loss.by_class)
        self._loss.to(device)
        self._weighted = any(self._loss.weighs(targets) for _, targets in parts)

    def inputs(self) -> Inputs:
        found = with_columns(super().inputs(), columns_of(self._sources[0]))
        names = class_names(getattr(self._sources[0], "classes", None) or ())
        return replace(found, classes=names) if len(names) == self._classes else found

    def _measure(self, accuracy: bool) -> None:
        self._accuracy = accuracy
        self.metrics = (TEST_LOSS, *[ACCURACY] * accuracy, *self._together.declared)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        first = generation * self.batch_size
        examples = self._stream.examples(first + start, first + stop)
        return Batch(as_inputs(self._train[0][examples], self.memory_format), self._train[1][examples])

    def _output(self, module: nn.Module, batch: Batch) -> Any:
        output = module(batch.inputs)
        return output.float() if isinstance(output, Tensor) and output.is_floating_point() else output

    def _losses(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the loss of each example (B,), and its weight (B,) if the mean is a weighted one. Raises ConfigError."""
        losses = self._loss.losses(output, batch.targets, self._weighted)
        if not self._compared:
            for _, targets in (self._train, self._test):
                self._loss.compare(output, targets)
            scores = isinstance(output, Tensor) and output.is_floating_point() and output.dim() == 2
            if scores and 1 < self._classes == output.shape[1]:  # outputs are as many as classes, whatever the loss
                self._measure(True)
            self._compared = True
        return losses, self._loss.weights(batch.targets) if self._weighted else None

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, len(self.score_names), dtype=torch.float32)
        with torch.no_grad():
            losses, weights = self._losses(self._output(module, batch), batch)
            if self.scored_by == WHOLE:  # a trial, with a part of a batch
                return torch.stack([-losses, losses], 1)
            return -losses[:, None] if weights is None else torch.stack([-losses.double(), weights], 1)

    def score(self, module: nn.Module, batch: Batch) -> np.ndarray:
        if not self.judges(batch):
            return super().score(module, batch)
        with torch.no_grad():
            output = self._output(module, batch)
            loss = self._mean(*self._losses(output, batch)).item()
        return np.array([self._together.fitness(self.fitness, output, batch.targets), loss], np.float64)

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        scores = super().rewards(module, batch)
        if not self._weighted:
            return scores * self.batch_size if self._loss.reduction == "sum" else scores
        weights = scores[:, 1:]
        return torch.cat([scores[:, :1] / weights.mean(), weights], 1)

    def means(self, sums: np.ndarray, examples: int) -> np.ndarray:
        if self._loss.reduction == "sum" or self.scored_by == WHOLE:
            return sums
        means = super().means(sums, examples)
        with np.errstate(invalid="ignore"):  # a mean over no counted target is NaN
            return np.concatenate([means[:, :1] / means[:, 1:], means[:, 1:]], 1) if self._weighted else means

    def share(self, generation: int, start: int, stop: int) -> float:
        if self._loss.reduction == "sum":
            return 1.0
        if not self._weighted:
            return super().share(generation, start, stop)
        first = generation * self.batch_size
        weights = self._loss.weights(self._train[1][self._stream.examples(first, first + self.batch_size)])
        return float(weights[start:stop].sum() / weights.sum())

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return self._mean(*self._losses(self._output(module, batch), batch))

    def _mean(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Return the loss of a batch as its own reduction gives it."""
        if weights is not None and not weights.any():
            return losses.sum()  # no target counts in this rank's share of the batch
        return self._loss.together(losses, None if weights is None else weights.to(losses.dtype))

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return sums: loss, weight or examples, right answers of a loss of classes; then the metrics of all test examples."""
        part = slice(chunk * self.evaluation_batch, (chunk + 1) * self.evaluation_batch)
        batch = Batch(as_inputs(self._test[0][part], self.memory_format), self._test[1][part])
        with torch.no_grad():
            output = outputs_of(partial(self._output, module), batch, self._at_once)
            losses, weights = self._losses(output, batch)
        sums = [losses.double().sum().item(), len(losses) if weights is None else weights.sum().item()]
        if self._accuracy:
            # the argmax of NaN is a class too
            right = (output.argmax(1) == batch.targets) & ~output.isnan().any(1)
            sums += [right.sum().item(), len(losses)]
        return np.array([*sums, *self._together.values(output, batch.targets)], np.float64)

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        loss, weight, *values = map(float, sums)
        summary = {TEST_LOSS.name: loss if self._loss.reduction == "sum" else loss / weight if weight else math.nan}
        if self._accuracy:
            right, count, *values = values
            summary[ACCURACY.name] = right / count if count else math.nan
        return summary | {metric.name: value for metric, value in zip(self._together.declared, values, strict=True)}


def _target(key: str, source: Any, number: int, value: Any) -> Tensor:
    """Return the target of an example: float32, or int64. Raises ConfigError."""
    try:
        target = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        text = f"example {number} has the target {str(value)[:60]!r}: numbers are needed"
        raise ConfigError(key, name_of(source), text) from error
    return target.to(torch.float32 if target.is_floating_point() else torch.int64)
