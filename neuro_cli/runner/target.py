"""Target of a run (``stop.metric``, ``stop.at``), which ends at the first test evaluation that reaches it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, nearest
from neuro_cli.core.metric import Metric


@dataclass(frozen=True)
class StopConfig:
    """Name of a ``metric`` and the value ``at`` which a run ends; both None: none. Raises ConfigError."""

    metric: str | None
    at: float | None

    def __post_init__(self) -> None:
        if self.metric is not None and not isinstance(self.metric, str):
            raise ConfigError("stop.metric", self.metric, "must be the name of a metric of the test")
        if self.at is not None:
            number("stop.at", self.at)
        if (self.metric is None) != (self.at is None):
            missing = "stop.at" if self.at is None else "stop.metric"
            raise ConfigError(missing, None, "stop.metric and stop.at go together: a metric, and the value that ends the run")


class Target:
    """Target among the ``metrics`` of a run's evaluations; without ``stop.metric`` it is never reached. Raises ConfigError."""

    def __init__(self, stop: StopConfig, metrics: Sequence[Metric]) -> None:
        known = {metric.name: metric for metric in metrics}
        if stop.metric is not None and stop.metric not in known:
            raise ConfigError("stop.metric", stop.metric, nearest(stop.metric, known))
        self._metric, self._at = known.get(stop.metric or ""), stop.at

    def reached(self, values: Mapping[str, float]) -> bool:
        """Whether the ``values`` of a test evaluation are at the target or, whichever way the metric improves, beyond it."""
        if self._metric is None or self._at is None:
            return False
        return self._metric.reached(values[self._metric.name], self._at)

    def __str__(self) -> str:
        return f"{self._metric.name} has reached {self._at:g}" if self._metric is not None else "no target"
