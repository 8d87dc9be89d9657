"""``stop.metric`` and ``stop.at``: a run ends at the first evaluation where the metric has come that far."""

from collections.abc import Mapping, Sequence
from typing import Any

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, nearest
from neuro_cli.core.metric import Metric


class Target:
    """Of a config. Without ``stop.metric`` it is never reached. Raises ConfigError.

    ``metrics``: those that the run's evaluations measure; None where they are not known yet, to check the keys alone.
    """

    def __init__(self, config: Mapping[str, Any], metrics: Sequence[Metric] | None = None) -> None:
        keys = config.get("stop") or {}  # configs of earlier versions have none
        name, self._at = keys.get("metric"), keys.get("at")
        if name is not None and not isinstance(name, str):
            raise ConfigError("stop.metric", name, "must be the name of a metric of the test")
        if self._at is not None:
            number("stop.at", self._at)
        if (name is None) != (self._at is None):
            missing = "stop.at" if self._at is None else "stop.metric"
            raise ConfigError(missing, None, "stop.metric and stop.at go together: a metric, and the value that ends the run")
        known = {metric.name: metric for metric in metrics or ()}
        if name is not None and metrics is not None and name not in known:
            raise ConfigError("stop.metric", name, nearest(name, known))
        self._metric = known.get(name) if name is not None else None

    def reached(self, values: Mapping[str, float]) -> bool:
        """Whether the ``values`` of an evaluation are there: at the goal or, whichever way the metric improves, beyond it."""
        if self._metric is None or self._at is None:
            return False
        return self._metric.reached(values[self._metric.name], self._at)

    def __str__(self) -> str:
        return f"{self._metric.name} has reached {self._at:g}" if self._metric is not None else "no target"
