"""Hydra's plugin for the sweeps of ``neuro VERB -m``: hands the jobs of any sweeper to neuro.

Hydra makes launchers of the namespace package ``hydra_plugins`` only. It imports this file at every start of a command, so
what the file needs is imported when a sweep begins.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

if TYPE_CHECKING:
    from neuro_cli.cli.sweep.launcher import SweepLauncher


class NeuroLauncher(Launcher):
    """Launcher of the sweep that runs in this process."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from neuro_cli.cli.sweep.sweep import Sweep

        assert Sweep.current is not None, "only a sweep of neuro names this launcher"
        self._launcher: SweepLauncher = Sweep.current.launcher_of(hydra_context, task_function, config)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        return self._launcher.launch(job_overrides, initial_job_idx)
