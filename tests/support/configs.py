"""Composes the config of a run as the command line does."""

import pickle
from copy import deepcopy
from functools import cache
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.utils import get_class
from omegaconf import OmegaConf

from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.cli.options.groups import TABLES, groups
from neuro_cli.cli.options.tree import BASE
from neuro_cli.core.files import config_folder
from neuro_cli.sampler.base import Sampler
from support import read_once  # noqa: F401 (Hydra reads by it)

SMALL = {"noise_table": ("sampler.size=2000000",)}  # settings with which an option is small enough for a test


def sampler_of(name: str) -> tuple[str, ...]:
    """Return the overrides that choose a sampler."""
    return (f"sampler={name}", *SMALL.get(name, ()))


def class_of(name: str, group: str = "sampler") -> type:
    return get_class(str(OmegaConf.load(config_folder() / group / f"{name}.yaml")["_target_"]))


def reuses_noise(name: str) -> bool:
    return bool(getattr(class_of(name), "reuses_noise"))  # noqa: B009


def _options(group: str, kind: type) -> list[str]:
    """List the options of a group whose class is a ``kind``: a new option is tested as soon as its YAML exists."""
    names = sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))
    return [name for name in names if issubclass(class_of(name, group), kind)]


SAMPLERS = _options("sampler", Sampler)  # samplers that give every member parameters of its own
ALGOS = _options("algo", PopulationAlgorithm)
OF_ANY_FITNESS = [name for name in ALGOS if name != "random_vote"]  # a vote needs a task's answers


def composed(*overrides: str, verb: str = "train") -> dict[str, Any]:
    """Return the resolved config of ``neuro VERB OVERRIDES``, for the caller to change."""
    return deepcopy(_composed(verb, overrides))


@cache
def _composed(verb: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    deletes = any(_parsed(text).is_delete() for text in overrides)  # counts in the order of all
    values = [_parsed(text) for text in overrides if _is_value(_parsed(text)) and not deletes]
    config = pickle.loads(chosen(verb, tuple(text for text in overrides if deletes or not _is_value(_parsed(text)))))
    for value in values:
        OmegaConf.update(config, value.key_or_group, value.value(), merge=True)  # as Hydra does
    plain = OmegaConf.to_container(config, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


@cache
def _parsed(text: str) -> Override:
    return OverridesParser.create().parse_override(text)


def _is_value(override: Override) -> bool:
    """Return whether an override changes a key of the config, and chooses no option."""
    key = str(override.key_or_group)
    chooses = key in groups() or key == TABLES or key.startswith("hydra") or not {"/", "@"}.isdisjoint(key)
    return override.type is OverrideType.CHANGE and not override.is_sweep_override() and not chooses and override.package is None


@cache  # Hydra takes a tenth of a second, and hundreds of tests ask for the same few options with values of their own
def chosen(verb: str, overrides: tuple[str, ...]) -> bytes:
    """Return the config that Hydra composes, pickled: a copy by pickle takes a quarter of deepcopy's time."""
    with initialize_config_dir(str(config_folder()), **BASE, job_name=verb):
        return pickle.dumps(compose(verb, list(overrides)))
