"""Hydra's plugin for sweeps whose values Optuna chooses: ``hydra/sweeper=optuna``.

Hydra imports this file at the start of every command, so Optuna is imported only when a sweep begins.
"""

from typing import Any

from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Sweeper with the keys of ``conf/hydra/sweeper/optuna.yaml``."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from hydra.core.plugins import Plugins

        from neuro_cli.core.errors import ConfigError
        from neuro_cli.core.install import absent, install

        if absent("optuna"):
            raise ConfigError("hydra/sweeper", "optuna", f"is not installed: {install('sweep')}")
        self._config, self._context = config, hydra_context
        Plugins.instance().instantiate_launcher(hydra_context, task_function, config)

    def sweep(self, arguments: list[str]) -> None:
        from neuro_cli.cli.sweep.trials import run_trials

        run_trials(self._settings, self._config, self._context, arguments)
