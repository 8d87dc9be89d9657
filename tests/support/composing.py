"""One composition for all commands with the same options: Hydra takes 0.1 to 0.8 s for each, and files of tests have hundreds."""

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from neuro_cli.cli.options.groups import groups
from neuro_cli.cli.options.tree import ConfigTree
from neuro_cli.cli.overrides import check


@contextmanager
def composed_once() -> Iterator[None]:
    """Check commands by their choice of options, which is kept, and by each value, unless a user's files are among them.

    :func:`neuro_cli.cli.overrides.check.checked` does the same where Hydra cannot compose all of a command at once.
    """
    kept: dict[tuple[ConfigTree, tuple[str, ...]], bytes] = {}  # a copy by pickle takes a quarter of deepcopy's time
    compose = check.compose_choices

    def composed(tree: ConfigTree, choices: list[str]) -> DictConfig:
        if tree.more or not ConfigStore.instance().repo.keys().isdisjoint(groups()):
            return compose(tree, choices)
        key = tree, tuple(choices)
        if key not in kept:
            kept[key] = pickle.dumps(compose(tree, choices))
        config: DictConfig = pickle.loads(kept[key])
        config.hydra.runtime.cwd = os.getcwd()
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "compose_choices", composed)
        patch.setattr(check, "compose_whole", lambda *_: ([], None))
        yield
