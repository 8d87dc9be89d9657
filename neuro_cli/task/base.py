"""Interface of tasks, which score candidates.

A task knows nothing of ranks or perturbations. It loads its data once, returns the examples of a generation by address, and
scores any module on them.

A task may learn from its population's experience, observation statistics for example. Such side information travels as extra
score columns of every member. Whoever runs the generation gathers all scores anyway, and gives the same mean scores to
:meth:`Task.absorb` on every rank, once per generation. :meth:`Task.state` returns what was learnt, for checkpoints, and
:meth:`Task.deployed` puts it into the module that is saved.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.messages.did_you_mean import Suggesting
from neuro_cli.core.metric import Metric
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.memory_formats import GROUP_NORM, GroupNorms, format_of, formats_of
from neuro_cli.core.module.own_numbers import with_own_numbers
from neuro_cli.core.module.torch_errors import advice
from neuro_cli.task.inputs import Inputs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Batch of examples: ``inputs`` ``(B, *input_shape)``, floats or token numbers; ``targets`` (B, ..), classes int64."""

    inputs: Tensor
    targets: Tensor

    def to(self, dtype: torch.dtype) -> "Batch":
        """Convert the inputs to ``dtype``; token numbers, int32 or int64, stay."""
        return Batch(self.inputs if self.inputs.dtype in (torch.int32, torch.int64) else self.inputs.to(dtype), self.targets)

    def clone(self) -> "Batch":
        """Return a copy of the batch, which a module may write to."""
        return Batch(self.inputs.clone(), self.targets.clone())

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.inputs, self.targets))


class Task(Suggesting, ABC):
    """Task that scores a module. Legend: B examples, C score columns, E evaluation columns."""

    input_shape: tuple[int, ...]
    output_size: int
    batch_size: int  # examples in a generation, or for each direction with ``own_examples``
    batch_key = "batch_size"  # the config key that sets it
    evaluation_chunks: int
    memory_format: torch.memory_format = torch.channels_last  # applies to four-dimensional inputs
    own_examples = False  # True: every direction has its own examples, whatever the layout
    # "episodes": played together; "batch": one number for all examples of a member (neuro_cli.scoring.choice)
    scored_by = "examples"
    votes = False  # True: evaluate_chunk counts the votes of neuro_cli.core.module.voters
    own_noise = False  # True: scores may be noisy, so that a member scored twice may have two
    hands_batch = True  # False: the module gets something else than the batch's inputs
    has_loss = True  # False: no loss, and ``-fitness`` is none either
    code: Any = None  # code of the script's functions that score at present
    own_functions: tuple[Any, ...] = ()  # these
    fitness_is = "fitness"  # name of the fitness in errors, unless it is a negative loss

    @property
    @abstractmethod
    def score_names(self) -> tuple[str, ...]:
        """Names of the C columns of :meth:`score`; the first is ``fitness`` (higher is better), ``loss`` may follow.

        Each column is a sum over examples, so that shares of a batch can be added.
        """

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics that :meth:`summarise` measures. Progress line, ``curves.png`` and sweep table show the first.

        ``stop.metric`` may be any of them.
        """

    @property
    def packages(self) -> tuple[str, ...]:
        """Names of packages whose versions decide its scores, beyond torch, numpy and numba; ``summary.json`` records them."""
        return ()

    def refuse(self, *, layout: str, precision: str, gradient: bool) -> None:
        """Raise UserError if the task does not serve such a run; ``gradient``: trained by back-propagation."""

    def model_arguments(self, input_shape: tuple[int, ...] | None) -> dict[str, Any]:
        """Return sizes of a model for this task by the names of its arguments; they fill those that the config leaves null.

        ``input_shape``: what the config declares, None if absent. Raises UserError.
        """
        return {}

    @abstractmethod
    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        """Read and decode all data once. ``input_shape`` is what the model declares, None if it declares nothing.

        Raises UserError: data missing or unreadable, shapes that do not fit, a batch larger than the data.
        """

    def misfit(self, module: nn.Module) -> str | None:
        """Return why ``module`` cannot be scored, None if it can; sets ``memory_format`` to the first of two that it takes.

        Raises UserError with the complete line if the task itself knows what is wrong.
        """
        reasons: list[str] = []
        formats = formats_of(module, self.batch_size * math.prod(self.batch(0, 0, 1).inputs.shape[2:]))
        for self.memory_format in formats:
            layout = ParameterLayout(module, self.memory_format is torch.channels_last)
            probe = copied(module).eval()
            layout.attach(probe, layout.flatten(module))
            batch = self.batch(0, 0, min(2, self.batch_size)).clone()
            try:
                with GroupNorms() as norms:
                    with_own_numbers(probe, partial(self.score, probe, batch))
            except UserError:
                raise
            except Exception as error:  # a user's module may check its input in any way
                reasons.append(advice(error) or " ".join(str(error).split()))
                continue
            if norms.seen and self.memory_format is torch.channels_last:
                reasons.append(GROUP_NORM)
                continue
            if reasons:
                log.info("no channels_last activations (%s): contiguous ones are used, slower", reasons[0])
            return None
        shape = "x".join(map(str, batch.inputs.shape[1:]))
        return f"the model does not take {shape} examples: {reasons[-1]}"

    def keep_format(self, scalars: Mapping[str, Any] | None) -> None:
        """Set the memory format of a resumed run, by the ``scalars`` of its checkpoint: its flat vectors have that order."""
        if scalars is not None:
            self.memory_format = format_of(scalars)

    def inputs(self) -> Inputs:
        """Return the inputs of a network for this task, once the data are loaded."""
        if self.scored_by != "examples":
            return Inputs(tuple(self.input_shape))
        return Inputs(tuple(self.input_shape), str(self.batch(0, 0, 1).inputs.dtype).removeprefix("torch."))

    @abstractmethod
    def batch(self, generation: int, start: int, stop: int) -> Batch:
        """Return examples [start, stop) of a generation: a function of (seed, generation) only.

        A generation uses the first ``batch_size``. Peers of a cluster draw addresses out of 2**32 directions, each with
        other examples, so ``start`` may be large and must not cost time.
        """

    def keep_batch(self) -> None:
        """Give every generation the examples of the first, so that members of all generations can be compared."""
        first = self.batch

        def batch(generation: int, start: int, stop: int) -> Batch:
            return first(0, start, stop)

        self.__dict__["batch"] = batch

    @abstractmethod
    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return scores (B, C), float32 or float64, of every example of ``batch``. Runs without gradients. Thread-safe."""

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return scores (B, C) of each example, or (B, T, C) of its T tokens, for samplers that draw noise for each example.

        An example's token scores add up to its :meth:`example_scores`. Runs without gradients. Thread-safe.
        """
        return self.example_scores(module, batch)

    def score(self, module: nn.Module, batch: Batch) -> np.ndarray:
        """Return the sums over the examples of ``batch``, shape (C,) float64."""
        return self.example_scores(module, batch).sum(0, dtype=torch.float64).cpu().numpy()

    def means(self, sums: np.ndarray, examples: int) -> np.ndarray:
        """Return mean scores (n, C) float64 of members, the fitness first, from their sums (n, C) over as many examples."""
        means: np.ndarray = sums / examples
        return means

    def share(self, generation: int, start: int, stop: int) -> float:
        """Return the share of examples [start, stop) of a generation in the :meth:`loss` of all of them."""
        return (stop - start) / self.batch_size

    def measures(self, means: np.ndarray, members: int, seconds: float) -> dict[str, float]:
        """Return extra columns of ``metrics.csv`` from mean scores (C,) of a generation's ``members``, which took ``seconds``."""
        return {}

    def absorb(self, generation: int, means: np.ndarray, members: int) -> None:
        """Learn from the mean scores (C,) float64 over the examples of all ``members`` of a generation.

        Called once per generation after all members are scored, with the same bits on every rank.
        """

    def state(self) -> dict[str, Tensor]:
        """Return all that the task's :meth:`absorb` has learnt, for a checkpoint: the same on every rank."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Restore what the task's :meth:`state` gave; may be called before :meth:`load`."""

    def deployed(self, module: nn.Module) -> nn.Module:
        """Return ``module`` with what it needs of this task's state to work alone: what is evaluated and loaded."""
        return module

    @abstractmethod
    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        """Return the differentiable mean loss over ``batch``: a scalar."""

    @abstractmethod
    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Return the sums over test chunk ``chunk`` (0 <= chunk < evaluation_chunks), shape (E,) float64."""

    @abstractmethod
    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        """Return all :attr:`metrics` from the sums (E,) over all chunks; other numbers only reach ``summary.json``."""

    def evaluation(self, sums: np.ndarray) -> dict[str, float]:
        """Return what :meth:`summarise` gives. Raises UserError when a declared metric is missing there."""
        values = self.summarise(sums)
        for metric in self.metrics:
            if metric.name not in values:
                given = ", ".join(values) or "nothing"
                raise UserError(f"task={type(self).__name__}: it declares the metric {metric.name}, summarise gives {given}")
        return values
