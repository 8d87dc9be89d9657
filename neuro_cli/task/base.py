"""The contract of a task: what a candidate is scored on.

A task knows nothing of populations, ranks or perturbations. It loads its data once, hands out the examples of a
generation by address, and scores any module on them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """Examples of one generation: ``inputs`` (B, *input_shape) float, ``targets`` (B,) int64."""

    inputs: Tensor
    targets: Tensor

    def to(self, dtype: torch.dtype) -> "Batch":
        return Batch(self.inputs.to(dtype), self.targets)


class Task(ABC):
    """Scores a module. Legend: B examples, C score columns, E evaluation columns."""

    input_shape: tuple[int, ...]
    output_size: int
    evaluation_chunks: int
    memory_format: torch.memory_format = torch.channels_last  # of four-dimensional inputs

    @property
    @abstractmethod
    def score_names(self) -> tuple[str, ...]:
        """Names of the C columns of :meth:`score`; the first is ``fitness`` (higher is better), ``loss`` may follow."""

    @abstractmethod
    def load(self, *, input_shape: tuple[int, ...] | None, device: torch.device, seed: int, batch_size: int) -> None:
        """Read and decode all data once. ``input_shape`` is what the model declares, None if it declares nothing.

        Raises UserError: data missing or unreadable, shapes that do not fit, a batch larger than the data.
        """

    @abstractmethod
    def batch(self, generation: int, start: int, stop: int) -> Batch:
        """Examples [start, stop) of the ``batch_size`` of a generation: a function of (seed, generation) only."""

    @abstractmethod
    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        """Scores (B, C) float32 of every example of ``batch``. Runs without gradients. Thread-safe."""

    def score(self, module: nn.Module, batch: Batch) -> np.ndarray:
        """Sums over the examples of ``batch``, shape (C,) float64."""
        return self.example_scores(module, batch).sum(0, dtype=torch.float64).cpu().numpy()

    @abstractmethod
    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        """The differentiable mean loss over ``batch``: a scalar."""

    @abstractmethod
    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        """Sums over test chunk ``chunk`` (0 <= chunk < evaluation_chunks), shape (E,) float64."""

    @abstractmethod
    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        """Metrics from the sums (E,) over all chunks, for example ``test_accuracy`` (a fraction) and ``test_loss``."""
