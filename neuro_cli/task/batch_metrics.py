"""Metrics of a complete batch, such as F1 or the area under a curve, which are no sums over examples."""

import copy
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.metric import HIGHER, LOWER, Metric
from neuro_cli.task.base import Batch, Task
from neuro_cli.task.dotted import located

KEY = "task.metrics"
WHOLE = "batch"  # Task.scored_by, if the fitness is such a metric

Score = Callable[[Any, Tensor], Any]


class BatchMetrics:
    """Metrics of a task; ``given``: one, or a dict of them by name, or None.

    A metric is a function of outputs and targets that returns a number, its dotted name, or an object of torchmetrics. Raises
    ConfigError.
    """

    def __init__(self, given: Any) -> None:
        named = given if isinstance(given, Mapping) else {} if given is None else {None: given}
        self._scores: dict[str, Score] = {}
        for name, each in named.items():
            score = located(KEY, each)
            if not callable(score):
                raise ConfigError(
                    KEY, each, "must be a function of (outputs, targets), its dotted name, or a metric of torchmetrics"
                )
            self._scores[name or _name_of(score)] = score

    def __bool__(self) -> bool:
        return bool(self._scores)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics; ``task.fitness`` may be any of them."""
        return tuple(self._scores)

    @property
    def declared(self) -> tuple[Metric, ...]:
        """Metrics of the test set, ``test_`` before each name. Raises ConfigError for a name that cannot be a column."""
        try:
            return tuple(
                Metric(f"test_{name}", f"test {name.replace('_', ' ')}", ".4f", better=HIGHER if _sign(score) > 0 else LOWER)
                for name, score in self._scores.items()
            )
        except ValueError as error:
            raise ConfigError(KEY, list(self._scores), str(error)) from error

    def values(self, outputs: Any, targets: Tensor) -> list[float]:
        """Return the value of each metric of all ``outputs`` and ``targets``."""
        return [self._value(name, outputs, targets) for name in self._scores]

    def fitness(self, name: str, outputs: Any, targets: Tensor) -> float:
        """Return the value of a metric, its negative if a lower one is better."""
        return _sign(self._scores[name]) * self._value(name, outputs, targets)

    def _value(self, name: str, outputs: Any, targets: Tensor) -> float:
        if any(
            leaf.isnan().any() for leaf in _tensors(outputs)
        ):  # argmax and sorts of NaN give numbers, so a diverged member would have an ordinary fitness
            return math.nan
        score = self._scores[name]
        if isinstance(score, nn.Module):  # torchmetrics: it changes its state, and threads share it
            score = copy.deepcopy(score)
            if targets.is_floating_point() and not any(True for _ in score.parameters()):
                # its sums of squares lose the variance of targets far from zero in float32: an R2 of 0.76 becomes 0.9998
                outputs, targets = tree_map(_doubled, outputs), targets.double()
        try:
            with torch.no_grad():
                return float(score(outputs, targets))
        except UserError:
            raise
        except Exception as error:  # a user's metric may check its input in any way
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            shapes = " and ".join("x".join(map(str, each.shape)) for each in (*_tensors(outputs), targets))
            raise ConfigError(KEY, name, f"it gives no number for outputs and targets of {shapes}: {reason}") from error


class BatchJudged(Task):
    """Task whose fitness may be one of ``metrics`` of a whole batch, which are measured on the test set in any case."""

    functions: ClassVar[Mapping[str, int]] = {"metrics": 2, "loss": 2}  # called with outputs and targets
    fitness: str
    evaluation_batch: int

    def judge_by(self, metrics: Any, fitness: str) -> None:
        """Take the ``metrics``, as :class:`BatchMetrics` does, and the name of the fitness. Raises ConfigError."""
        self.given, self._together, self.fitness = metrics, BatchMetrics(metrics), fitness
        if fitness in self._together.names:
            self.scored_by, self.fitness_is = WHOLE, fitness

    def count_chunks(self, examples: int) -> None:
        """Set the test chunks for so many ``examples``: one for all of them where metrics see them together."""
        self._at_once = self.evaluation_batch  # examples in a pass
        if self._together:
            self.evaluation_batch = examples
        self.evaluation_chunks = -(-examples // self.evaluation_batch)

    def judges(self, batch: Batch) -> bool:
        """Return whether the fitness is a metric of ``batch``; trials look at fewer examples, which have their loss."""
        return self.scored_by == WHOLE and len(batch.targets) == self.batch_size

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        self.refuse_parts("noise on activations needs a score for each example")
        return super().rewards(module, batch)

    def refuse(self, *, layout: str, precision: str, gradient: bool) -> None:
        if layout == "per_example":
            self.refuse_parts("layout=per_example splits it")

    def refuse_parts(self, what: str) -> None:
        """Raise ConfigError, saying ``what`` takes parts of a batch, if the fitness is a metric of a whole one."""
        if self.scored_by == WHOLE:
            raise ConfigError("task.fitness", self.fitness, f"is a metric of a whole batch, and {what}")


def outputs_of(answer: Callable[[Batch], Any], batch: Batch, size: int) -> Any:
    """Return the outputs of ``answer`` for ``batch``, ``size`` examples at a time.

    Raises ConfigError for parts that cannot be joined: of containers, every tensor has a row for each example.
    """
    parts = [Batch(*part) for part in zip(batch.inputs.split(size), batch.targets.split(size), strict=True)]
    outputs = [answer(part) for part in parts]
    if len(outputs) == 1:
        return outputs[0]
    for part, output in zip(parts, outputs, strict=True):
        for leaf in _tensors(output):
            if not leaf.dim() or len(leaf) != len(part.inputs):
                allowed = f"metrics of all test examples need a row for each, not an output of shape {tuple(leaf.shape)}"
                raise ConfigError("task.evaluation_batch", size, f"{allowed}; {len(batch.inputs)} makes one pass of all")
    return tree_map(lambda *pieces: torch.cat(pieces) if isinstance(pieces[0], Tensor) else pieces[0], *outputs)


def _doubled(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _tensors(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]


def _name_of(score: Any) -> str:
    """Return the name of a function or class, in small letters with _ between words."""
    score = score.func if isinstance(score, partial) else score
    name = getattr(score, "__name__", type(score).__name__)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("<>").lower()


def _sign(score: Any) -> float:
    return -1.0 if getattr(score, "higher_is_better", True) is False else 1.0
