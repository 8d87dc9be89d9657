"""Outcome of a candidate's training, and its order by fitness."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from neuro_cli.strategy.space import Module, text_of


@dataclass(frozen=True)
class TrainingOutcome:
    """Trained candidate, or one that failed: then ``error`` says why and ``fitness`` is None.

    ``fitness``: validation accuracy, a fraction. ``test_accuracy``: a search does not use it before its end.
    """

    module: Module
    fitness: float | None = None
    loss: float | None = None
    train_loss: float | None = None
    test_accuracy: float | None = None
    test_loss: float | None = None
    parameters: int = 0
    seconds: float = 0.0
    worker: str = ""
    error: str = ""

    @property
    def rank(self) -> tuple[float, float, str]:
        """Sort key, higher is fitter: accuracy, then the lower validation loss, then the module's text."""
        if self.fitness is None or self.loss is None:
            return (-math.inf, -math.inf, text_of(self.module))
        return (self.fitness, -self.loss, text_of(self.module))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "module": list(self.module)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "TrainingOutcome":
        """Restore an outcome from :meth:`as_json`. Raises TypeError for other fields."""
        return cls(**{**fields, "module": tuple(fields["module"])})
