"""Target of a run (``stop.metric``, ``stop.at``), which ends at the first test evaluation that reaches it."""

from collections.abc import Mapping
from dataclasses import dataclass

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, nearest


@dataclass(frozen=True)
class Target:
    """Value ``at`` of ``metric``; with both None it is never reached. Raises ConfigError."""

    metric: str | None
    at: float | None

    def __post_init__(self) -> None:
        if self.metric is not None and not isinstance(self.metric, str):
            raise ConfigError("stop.metric", self.metric, "must be the name of a metric of the test, for example test_accuracy")
        if self.at is not None:
            number("stop.at", self.at)
        if (self.metric is None) != (self.at is None):
            missing = "stop.at" if self.at is None else "stop.metric"
            raise ConfigError(missing, None, "stop.metric and stop.at go together: a metric, and the value that ends the run")

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """Whether the ``metrics`` of a test evaluation reach it. Raises ConfigError for a metric that the test does not give."""
        if self.metric is None or self.at is None:
            return False
        if self.metric not in metrics:
            raise ConfigError("stop.metric", self.metric, nearest(self.metric, metrics))
        return metrics[self.metric] >= self.at

    def __str__(self) -> str:
        return f"{self.metric} has reached {self.at:g}"
