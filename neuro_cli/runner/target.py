"""Target of a run (``stop.metric``, ``stop.at``), which ends at the first test evaluation that reaches it."""

from collections.abc import Mapping
from typing import Any

from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, nearest


class Target:
    """Target of a config. Without ``stop.metric`` it is never reached. Raises ConfigError."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        keys = config.get("stop") or {}  # configs of earlier versions have none
        self._metric, self._at = keys.get("metric"), keys.get("at")
        if self._metric is not None and not isinstance(self._metric, str):
            raise ConfigError("stop.metric", self._metric, "must be the name of a metric of the test, for example test_accuracy")
        if self._at is not None:
            number("stop.at", self._at)
        if (self._metric is None) != (self._at is None):
            missing = "stop.at" if self._at is None else "stop.metric"
            raise ConfigError(missing, None, "stop.metric and stop.at go together: a metric, and the value that ends the run")

    def reached(self, metrics: Mapping[str, float]) -> bool:
        """Whether the ``metrics`` of a test evaluation reach it. Raises ConfigError for a metric that the test does not give."""
        if self._metric is None or self._at is None:
            return False
        if self._metric not in metrics:
            raise ConfigError("stop.metric", self._metric, nearest(self._metric, metrics))
        return metrics[self._metric] >= self._at

    def __str__(self) -> str:
        return f"{self._metric} has reached {self._at:g}"
