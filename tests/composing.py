"""Composes a choice of options once for all commands that tests run inside their process: Hydra takes 0.1 to 0.8 s each time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from neuro_cli.cli import overrides
from neuro_cli.cli.config_tree import ConfigTree
from neuro_cli.cli.groups import groups


@contextmanager
def composed_once() -> Iterator[None]:
    """Keep what the check of a command composes; not what Hydra composes for its run, nor what depends on files of a user."""
    kept: dict[tuple[ConfigTree, tuple[str, ...]], DictConfig] = {}
    compose = overrides._compose

    def composed(tree: ConfigTree, choices: list[str]) -> DictConfig:
        if tree.more or not ConfigStore.instance().repo.keys().isdisjoint(groups()):
            return compose(tree, choices)
        key = tree, tuple(choices)
        if key not in kept:
            kept[key] = compose(tree, choices)
        config = deepcopy(kept[key])
        config.hydra.runtime.cwd = os.getcwd()
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overrides, "_compose", composed)
        yield
