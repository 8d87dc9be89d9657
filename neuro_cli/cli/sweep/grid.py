"""Jobs of a sweep by Hydra's basic sweeper: every combination of the swept values, in the order of their keys."""

import itertools

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig

from neuro_cli.core.errors import UserError


def typed_overrides(config: DictConfig, loader: ConfigLoader) -> dict[str, Override]:
    """Return the overrides of a sweep by key, those of ``hydra.sweeper.params`` first; the last one of a key counts."""
    texts = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides([*texts, *config.hydra.overrides.task])
    return {str(override.get_key_element()): override for override in parsed}


def grid_of(overrides: dict[str, Override]) -> list[list[str]]:
    """Return the overrides of each job of the grid. Raises UserError for values that cannot be listed."""
    return [list(job) for job in itertools.product(*(_texts(key, override) for key, override in overrides.items()))]


def _texts(key: str, override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [f"{key}={override.get_value_element_as_str()}"]
    if not override.is_discrete_sweep():
        raise UserError(f"{override.input_line}: has no list of values; hydra/sweeper=optuna draws from an interval")
    return [f"{key}={value}" for value in override.sweep_string_iterator()]
