"""The contract of a scorer: sums of scores of a generation's members on this rank.

Which scorer serves a run is chosen in :mod:`neuro_cli.scoring.choice`.

Legend: n members, C score columns, M parameters, B examples.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.processor import lacks_bfloat16, rounds_float32
from neuro_cli.core.machine.threads import Threads
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import Candidate
from neuro_cli.scoring.isolation import Isolation
from neuro_cli.scoring.outside_state import OutsideState
from neuro_cli.task.base import Batch, Task

log = logging.getLogger(__name__)

ROUNDED = (
    "precision=float32: torch rounds products to fewer bits on this processor, and small noise with them: "
    "call torch.set_float32_matmul_precision('highest'), set torch.backends.mkldnn.conv.fp32_precision = 'ieee' "
    "and unset ONEDNN_DEFAULT_FPMATH_MODE"
)
UNSUPPORTED_BFLOAT16 = (
    "precision=bfloat16: torch has no fast products in it on this processor, which lacks AVX-512: float32 is likely faster"
)


@dataclass(frozen=True, kw_only=True)
class PassSettings:
    """Parts of a run that passes of its network need. ``module``: a form without parameters of its own, to be copied.

    ``batch_size``: examples of a generation. ``restores``: a pass leaves state in the module, which is restored afterwards.
    """

    module: nn.Module
    layout: ParameterLayout
    task: Task
    device: torch.device
    precision: torch.dtype
    threads: Threads
    clock: Clock
    batch_size: int
    isolation: Isolation = field(default_factory=Isolation)  # changes that passes of a run's members were seen to make
    said: set[str] = field(default_factory=set)  # warnings, each given once
    restores: bool = False

    def warn(self, message: str) -> None:
        """Log a warning, the first time."""
        if message not in self.said:
            self.said.add(message)
            log.warning("%s", message)

    def candidate(
        self,
        shared: Candidate | None = None,
        change: Callable[[nn.Module], None] | None = None,
        flat: Tensor | None = None,
    ) -> Candidate:
        """Return a copy of the module for parameters of its own, or for those of ``shared``, or for the vector ``flat``.

        ``change`` changes the copy's layers.
        """
        return Candidate(self.module, self.layout, self.precision, self.device, shared, change, flat)

    def module_at(self, centre: Tensor, dtype: torch.dtype | None = None) -> nn.Module:
        """Return a copy of the module with the parameters ``centre`` (M,), in ``dtype`` or the evaluation's precision."""
        form = self if dtype is None else replace(self, precision=dtype)
        candidate = form.candidate()
        candidate.flat.copy_(centre)
        return candidate.ready()

    def few(self, count: int, dtype: torch.dtype | None = None) -> Batch:
        """Return the first ``count`` examples of the first generation, or all where it has fewer, for a trial."""
        return self.task.batch(0, 0, min(count, self.batch_size)).to(dtype or self.precision)


@dataclass(frozen=True, kw_only=True)
class ScoringSettings(PassSettings):
    """The same where members are networks of their own, with their sampler.

    ``per_example``: each direction has its own share of the examples.
    """

    sampler: Sampler
    per_example: bool
    graphs: bool = False  # passes of small members on a GPU are recorded
    tolerant: bool = False  # a member without finite scores is ranked last

    @property
    def examples(self) -> int:
        """Examples that one member is scored on."""
        return self.batch_size // self.sampler.directions if self.per_example else self.batch_size

    @property
    def few_examples(self) -> bool:
        """Return whether a pass of many members is faster, whatever they are: few examples, or noise without a second product."""
        return self.sampler.reuses_noise and self.examples <= self.sampler.few_examples

    def say_slower(self, reason: str) -> None:
        """Log why members are scored one by one, once: a warning where they were meant to share passes."""
        message = f"members are scored one by one, slower: {reason}"
        if self.few_examples or self.device.type != "cpu":
            self.warn(message)
        elif message not in self.said:
            self.said.add(message)
            log.info("%s", message)


class Scorer(ABC):
    """Scores members. A subclass takes ``settings`` and the initial centre (M,), which it tries but does not keep."""

    def __init__(self, settings: PassSettings) -> None:
        self.settings = settings
        if settings.device.type == "cpu" and settings.precision == torch.float32 and rounds_float32():
            settings.warn(ROUNDED)
        if settings.device.type == "cpu" and settings.precision == torch.bfloat16 and lacks_bfloat16():
            settings.warn(UNSUPPORTED_BFLOAT16)

    @property
    def task(self) -> Task:
        return self.settings.task

    @property
    def module(self) -> nn.Module:
        return self.settings.module

    @property
    @abstractmethod
    def population(self) -> int:
        """Members of a generation."""

    @property
    @abstractmethod
    def own_examples(self) -> bool:
        """Return whether members have examples of their own, so that no rank can score all of them on its share."""

    @abstractmethod
    def means(self, sums: np.ndarray) -> np.ndarray:
        """Mean scores (n, C) from :meth:`scores`, in the float type in which ranks send them."""

    @abstractmethod
    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        """Return the sums (n, C) float64 over each member's examples; ``part`` [start, stop) of them, None for all.

        A row has the same bits whatever the other members are.
        """

    def release(self) -> None:  # noqa: B027 (most hold nothing)
        """Drop what passes of the last generation hold, so that a test evaluation has the memory."""

    @property
    def scored(self) -> int:
        """Members that were run in the last generation."""
        return self.population

    def reference(self, generation: int) -> np.ndarray | None:
        """Mean scores (C,) of the centre on the examples of the last scored generation, the same on every rank.

        None unless members' scores are differences from it.
        """
        return None

    def state(self) -> dict[str, Tensor]:
        """Return tensors that the scores of the next generation depend on, the same on every rank."""
        return {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore a :meth:`state`."""
        assert not tensors

    def gradient(self, centre: Tensor, batch: Batch) -> tuple[float, Tensor]:
        """Return the mean loss over ``batch`` at ``centre`` and its gradient (M,) float32. For a task that has a loss.

        Raises UserError where the loss has no gradient.
        """
        module = self.settings.module_at(centre)
        loss = self.task.loss(module, batch.to(self.settings.precision))
        if not loss.requires_grad:
            raise UserError(f"model={type(self.module).__name__}: its output has no gradient; train it by another algo than sgd")
        loss.backward()
        gradient = torch.empty_like(centre, dtype=torch.float32)
        parameters = dict(module.named_parameters())
        for place in self.settings.layout.places:
            grad = parameters[place.name].grad
            view = place.view(gradient)
            # a layer without effect on the loss has no gradient, which counts as zero
            view.zero_() if grad is None else view.copy_(grad)
        return loss.item(), gradient


class PopulationScorer(Scorer):
    """Scores members that are networks of their own."""

    settings: ScoringSettings

    def __init__(self, settings: ScoringSettings) -> None:
        super().__init__(settings)
        self._looked_at = set[Any]()  # codes of functions that score, whose writes were looked for

    def writes(self, modules: list[nn.Module]) -> Callable[[], str | None] | None:
        """Return a function that names state of the script which passes on threads, each with one of ``modules``, wrote to.

        None if the code of this fitness was checked before.
        """
        code = self.task.code
        if self.settings.threads.count == 1 or len(modules) < 2 or code in self._looked_at:
            return None
        self._looked_at.add(code)
        return OutsideState(modules[:2], self.task.own_functions).changed

    @property
    def examples(self) -> int:
        """Examples (or episodes) that one member is scored on."""
        return self.settings.examples

    @property
    def population(self) -> int:
        return self.settings.sampler.population

    @property
    def own_examples(self) -> bool:
        return self.task.own_examples or self.settings.per_example

    def means(self, sums: np.ndarray) -> np.ndarray:
        return self.task.means(sums, self.examples)  # float64, as members far from 0 differ by little
