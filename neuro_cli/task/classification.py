"""Classification of images, scored by cross-entropy or accuracy.

A subclass implements ``read`` and has a name.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import ACCURACY, LOSS, Metric
from neuro_cli.core.seeds import number_seed
from neuro_cli.task.base import Batch
from neuro_cli.task.batch_metrics import WHOLE, BatchJudged, outputs_of
from neuro_cli.task.distortion import distorted
from neuro_cli.task.example_order import ExampleStream
from neuro_cli.task.images import shape_text
from neuro_cli.task.inputs import Inputs, image_inputs

MOVES = 1  # address of the seed that moves images


@dataclass(frozen=True)
class Split:
    """Split of examples: ``images`` (N, C, H, W) uint8 and their ``targets`` (N,) int64 in [0, classes)."""

    images: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Data:
    """Examples of a classification, each channel's ``mean`` and ``std`` (C,) in units of 255; ``names``: of classes, or ()."""

    train: Split
    test: Split
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: int
    names: tuple[str, ...] = ()


class Classification(BatchJudged):
    """Task of images with classes. Legend: N examples, B of them in a batch, K logits, C channels.

    ``fitness``: negative_cross_entropy | accuracy | a name of ``metrics``, which :class:`batch_metrics.BatchMetrics` describes.
    ``evaluation_batch``: test examples in one evaluation chunk; with ``metrics`` all are one. ``shift`` >= 0: training images are
    moved by up to so many pixels along both axes, by another step in every epoch, and black follows. ``distort`` >= 0: they are
    distorted, by up to so many pixels (:func:`distortion.distorted`).
    """

    name: str
    metrics: tuple[Metric, ...] = (ACCURACY, LOSS)

    def __init__(self, fitness: str, evaluation_batch: int, metrics: Any = None, shift: int = 0, distort: float = 0.0) -> None:
        self.judge_by(metrics, fitness)
        self.shift = integer("task.shift", shift, 0)
        self.distort = number("task.distort", distort, low=0)
        one_of("task.fitness", fitness, ("negative_cross_entropy", "accuracy", *self._together.names))
        self.evaluation_batch = integer("task.evaluation_batch", evaluation_batch, 1)
        self.metrics = (*type(self).metrics, *self._together.declared)

    @abstractmethod
    def read(self, input_shape: tuple[int, ...] | None) -> Data:
        """Return all examples, decoded. ``input_shape``: what the model declares; a task that resizes gives that shape.

        Raises UserError: data missing or unreadable.
        """

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        shape, classes = self.sizes(input_shape)
        return {"input_shape": list(shape), "inputs": math.prod(shape), "outputs": classes}

    def sizes(self, input_shape: tuple[int, ...] | None) -> tuple[tuple[int, ...], int]:
        """Return the shape of examples for a model that declares ``input_shape``, and the number of classes. Raises UserError.

        The class attributes ``input_shape`` and ``output_size`` answer; without them the data are read.
        """
        shape, classes = (getattr(type(self), name, None) for name in ("input_shape", "output_size"))
        if shape is None or classes is None:
            data = self.read(input_shape)
            return tuple(data.train.images.shape[1:]), data.classes
        return input_shape or shape, classes

    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        declared = None if input_shape is None else tuple(input_shape)
        self.take(self.read(declared), input_shape=declared, device=device, seed=seed, batch_size=batch_size)

    def take(self, data: Data, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        """Do as :meth:`load`, with examples that were read already. Raises UserError."""
        declared = input_shape
        self.input_shape = tuple(data.train.images.shape[1:])
        self.output_size = data.classes
        if declared is not None and declared != self.input_shape:
            raise UserError(f"model expects {shape_text(declared)}, task={self.name} gives {shape_text(self.input_shape)}")
        for part, split in (("training", data.train), ("test", data.test)):
            self._check(part, split)
        images = data.train.images.dtype == torch.uint8 and len(self.input_shape) == 3
        names = data.names or tuple(map(str, range(data.classes)))
        self._inputs = image_inputs(self.input_shape, images, data.mean, data.std, names)
        size = len(data.train.targets)
        integer("batch_size", batch_size, 1)
        if batch_size > size:
            raise ConfigError("batch_size", batch_size, f"task={self.name} has {size} training examples")
        if self.distort > max(self.input_shape[1:], default=0):
            raise ConfigError("task.distort", self.distort, f"images are {shape_text(self.input_shape)}")
        self.batch_size, self._seed = batch_size, seed
        self._stream = ExampleStream(seed, size, device)
        self._moves = ExampleStream(number_seed(seed, MOVES), size, device)
        self.place(data, device)
        self.count_chunks(len(data.test.targets))

    def inputs(self) -> Inputs:
        return self._inputs

    def place(self, data: Data, device: torch.device) -> None:
        """Store the examples on ``device`` as :meth:`normalised` takes them, with its scale and shift."""
        self._train, self._test = (
            # (N, H, W, C) in memory, so that a selection is channels_last without a copy
            Split(split.images.permute(0, 2, 3, 1).contiguous().to(device), split.targets.to(device))
            for split in (data.train, data.test)
        )
        border = (0, 0, *[self.shift] * 4)
        self._train = Split(F.pad(self._train.images, border), self._train.targets) if self.shift else self._train
        pixels = self.input_shape[1] * self.input_shape[2]
        std = torch.tensor(data.std, dtype=torch.float64)
        # one value for each column of a flattened image is two to five times as fast as broadcasting over C
        self._scale = (1 / (255 * std)).float().repeat(pixels).to(device)
        self._shift = (-torch.tensor(data.mean, dtype=torch.float64) / std).float().repeat(pixels).to(device)

    def _check(self, part: str, split: Split) -> None:
        if not len(split.targets) or len(split.images) != len(split.targets):
            raise UserError(
                f"task={self.name}: {len(split.images)} {part} images with {len(split.targets)} targets; "
                "there must be as many of both, and at least one"
            )
        if split.images.shape[1:] != self.input_shape:
            raise UserError(
                f"task={self.name}: {part} images are {shape_text(tuple(split.images.shape[1:]))}, "
                f"training images {shape_text(self.input_shape)}"
            )
        for target in (int(split.targets.min()), int(split.targets.max())):
            if not 0 <= target < self.output_size:
                raise UserError(f"task={self.name}: {part} target {target} is none of the classes 0 to {self.output_size - 1}")

    def normalised(self, images: Tensor) -> Tensor:
        """Convert stored images (B, H, W, C), or distorted ones, to inputs (B, C, H, W) float32 in the task's memory format."""
        flat = images.float().flatten(1).mul_(self._scale).add_(self._shift)
        inputs = flat.view(images.shape).permute(0, 3, 1, 2)
        # clone(): with one channel both formats look alike, and contiguous() would keep channels_last strides
        return inputs if self.memory_format is torch.channels_last else inputs.clone(memory_format=self.memory_format)

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        assert 0 <= start <= stop
        first = generation * self.batch_size
        examples = self._stream.examples(first + start, first + stop)
        # index_select copies whole images; torch's [index] copies pixel by pixel, ten times as slow
        images = self._train.images.index_select(0, examples)
        if self.shift:
            images = self._moved(images, self._moves.examples(first + start, first + stop))
        if self.distort:
            images = distorted(images, self.distort, self._seed, generation, start)
        return Batch(self.normalised(images), self._train.targets[examples])

    def _moved(self, images: Tensor, places: Tensor) -> Tensor:
        """Return parts (B, H, W, C) of images with a border; ``places`` (B,) in [0, N), each once in an epoch, choose them."""
        steps, (_, height, width) = 2 * self.shift + 1, self.input_shape
        chosen = places * steps**2 // self._moves.size
        rows = (chosen // steps)[:, None] + torch.arange(height, device=images.device)
        columns = (chosen % steps)[:, None] + torch.arange(width, device=images.device)
        return images[torch.arange(len(images), device=images.device)[:, None, None], rows[:, :, None], columns[:, None]]

    def _logits(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return logits (B, K) float32. K may exceed the number of classes; the rest are classes that never occur."""
        logits = module(batch.inputs)
        shape = tuple(getattr(logits, "shape", ()))
        if len(shape) != 2 or shape[0] != len(batch.targets) or shape[1] < self.output_size:
            raise UserError(
                f"model: its output for {len(batch.targets)} images is {shape_text(shape) or type(logits).__name__}, "
                f"task={self.name} needs {len(batch.targets)}x{self.output_size} logits"
            )
        return logits.float()

    votes = True

    @property
    def score_names(self) -> tuple[str, ...]:
        return ("fitness",) if self.fitness == "negative_cross_entropy" else ("fitness", "loss")

    def score(self, module: nn.Module, batch: Batch) -> np.ndarray:
        if not self.judges(batch):
            return super().score(module, batch)
        with torch.no_grad():
            logits = self._logits(module, batch)
            value = self._together.fitness(self.fitness, logits, batch.targets)
            return np.array([value, F.cross_entropy(logits, batch.targets).item()], np.float64)

    def means(self, sums: np.ndarray, examples: int) -> np.ndarray:
        return sums if self.scored_by == WHOLE else super().means(sums, examples)

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        if not len(batch.targets):
            return torch.zeros(0, len(self.score_names), dtype=torch.float32)
        with torch.no_grad():
            correct, loss = outcomes(self._logits(module, batch), batch.targets)
            if self.fitness == "negative_cross_entropy":
                return -loss[:, None]
            return torch.stack([correct if self.fitness == "accuracy" else -loss, loss], 1)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(self._logits(module, batch), batch.targets)

    def test_batch(self, chunk: int) -> Batch:
        """Return the examples of test chunk ``chunk`` (0 <= chunk < evaluation_chunks)."""
        assert 0 <= chunk < self.evaluation_chunks
        part = slice(chunk * self.evaluation_batch, (chunk + 1) * self.evaluation_batch)
        return Batch(self.normalised(self._test.images[part]), self._test.targets[part])

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return sums: correct examples, cross-entropy, examples; then the metrics of all test examples."""
        batch = self.test_batch(chunk)
        with torch.no_grad():
            logits = outputs_of(partial(self._logits, module), batch, self._at_once)
            correct, loss = outcomes(logits, batch.targets)
            sums = torch.stack([correct, loss, torch.ones_like(loss)]).sum(1, dtype=torch.float64)
        return np.array([*sums.tolist(), *self._together.values(logits, batch.targets)], np.float64)

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        correct, loss, count, *values = map(float, sums)
        metrics = zip(self._together.declared, values, strict=True)
        return {ACCURACY.name: correct / count, LOSS.name: loss / count} | {metric.name: value for metric, value in metrics}


def outcomes(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return 1 or 0 for right or wrong, and the cross-entropy, of each example, (B,) each, from ``logits`` (B, K) float32."""
    loss = F.cross_entropy(logits, targets, reduction="none")
    # argmax of NaN logits would count lucky guesses
    return ((logits.argmax(1) == targets) & ~loss.isnan()).float(), loss
