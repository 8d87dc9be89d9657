"""Compositions by Hydra in a quarter less time, with the same configs: hundreds of tests compose several.

Each composition copies Hydra's store of configs in depth, of which only the list of places may change, and parses the same 20
YAML files again.
"""

import copy
import pickle
from typing import Any

import yaml
from hydra._internal import config_repository
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from omegaconf import omegaconf

_parsed: dict[str, bytes] = {}


def install() -> None:
    """Change Hydra and OmegaConf in this process."""
    config_repository.CachingConfigRepository.__init__ = _begin  # type: ignore[method-assign]
    omegaconf.yaml = _Yaml()  # type: ignore[attr-defined]


def _begin(self: CachingConfigRepository, delegate: IConfigRepository) -> None:
    self.delegate = copy.copy(delegate)  # it may get other places, as a new list
    self.cache = {}


class _Yaml:
    """The module ``yaml``, whose ``load`` parses a text once."""

    def __getattr__(self, name: str) -> Any:
        return getattr(yaml, name)

    @staticmethod
    def load(stream: Any, Loader: Any) -> Any:  # noqa: N803 (the argument's name)
        if isinstance(stream, str):
            return yaml.load(stream, Loader)
        text = stream.read()
        if text not in _parsed:
            stream.seek(0)  # an error names the file
            _parsed[text] = pickle.dumps(yaml.load(stream, Loader))
        return pickle.loads(_parsed[text])
