"""Search space of a sweep by Optuna, in the syntax of Hydra's plugin for Optuna 2.

``interval(a,b)``, ``int(interval(a,b))``, ``range(a,b,step)`` with both ends, ``choice(x,y)`` or ``x,y``;
``tag(log,interval(a,b))`` on a logarithmic scale.
"""

from dataclasses import replace

from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from neuro_cli.core.errors import ConfigError


def distribution_of(override: Override) -> BaseDistribution:
    """Return the distribution of a swept key. Raises ConfigError for a value that is no search space."""
    value = override.value()
    try:
        if isinstance(value, IntervalSweep):
            assert value.start is not None
            assert value.end is not None
            return _numbers(value.start, value.end, None, "log" in value.tags)
        if isinstance(value, RangeSweep) and not value.shuffle:
            assert value.start is not None
            assert value.stop is not None
            return _numbers(value.start, value.stop, value.step, "log" in value.tags)
        if isinstance(value, RangeSweep | ChoiceSweep):  # a study has one order of choices, and Optuna draws from it
            override = replace(override, _value=replace(value, shuffle=False))
        return CategoricalDistribution(list(dict.fromkeys(override.sweep_string_iterator())))
    except ValueError as error:
        raise ConfigError(override.key_or_group, str(override.input_line).partition("=")[2], str(error)) from error


def _numbers(low: float, high: float, step: float | None, log: bool) -> BaseDistribution:
    if isinstance(low, int) and isinstance(high, int) and isinstance(step, int | None):
        return IntDistribution(low, high, log=log, step=step or 1)
    return FloatDistribution(low, high, log=log, step=None if log or step is None else step)
