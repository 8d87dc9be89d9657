"""Target of a run: the value of a metric at which ``stop.metric`` and ``stop.at`` end it."""

from collections.abc import Mapping, Sequence

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.core.metric import Metric
from neuro_cli.runner.config import StopConfig


class Target:
    """Value of a metric that ends the run; without ``stop.metric`` none does. Raises ConfigError for an unknown metric.

    The run ends at the first test evaluation that reaches it.
    """

    def __init__(self, stop: StopConfig, metrics: Sequence[Metric]) -> None:
        by_name = {metric.name: metric for metric in metrics}
        if stop.metric is not None and stop.metric not in by_name:
            raise ConfigError("stop.metric", stop.metric, nearest(stop.metric, by_name))
        self._metric, self._at = by_name.get(stop.metric or ""), stop.at

    def reached(self, values: Mapping[str, float]) -> bool:
        """Return whether the ``values`` of a test evaluation are at the target or better."""
        if self._metric is None or self._at is None:
            return False
        return self._metric.reached(values[self._metric.name], self._at)

    def __str__(self) -> str:
        return f"{self._metric.name} has reached {self._at:g}" if self._metric is not None else "no target"
