"""Composes the config of a run as the command line does."""

from copy import deepcopy
from functools import cache
from typing import Any

from hydra.utils import get_class
from omegaconf import OmegaConf

from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.core.files import config_folder
from neuro_cli.sampler.base import Sampler
from support.composing import composed_of

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
    config = composed_of(_tree(verb), list(overrides))
    plain = OmegaConf.to_container(OmegaConf.masked_copy(config, [key for key in config if key != "hydra"]), resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


_tree = cache(ConfigTree)  # whether a user has options of their own is looked up once a verb
