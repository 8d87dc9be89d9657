"""Hydra's launcher `broker`: the jobs of ``neuro train -m hydra/launcher=broker`` go to the workers of a task cluster.

Hydra takes plugins from the namespace package ``hydra_plugins`` only. It imports this file at every start of a command, so
what it needs is imported when it launches.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, filter_overrides
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict


class BrokerLauncher(Launcher):
    """Sends every job as data, its overrides and its folder, to a cluster; a worker runs it as a command of its own.

    ``settings``: arguments of `neuro_cli.pool.broker.BrokerPool`.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self._context, self._config = hydra_context, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the jobs. Returns them in their order, when all have ended."""
        from neuro_cli.launch.broker_sweep import SweepJob, run_jobs
        from neuro_cli.launch.stored_options import as_typed

        returns = [self._described(list(overrides), initial_job_idx + place) for place, overrides in enumerate(job_overrides)]
        verb = str(self._config.hydra.job.name)
        texts = [[as_typed(text) for text in filter_overrides(one.overrides)] for one in returns]
        jobs = [SweepJob(initial_job_idx + place, verb, texts[place], one.working_dir) for place, one in enumerate(returns)]
        for one, error in zip(returns, run_jobs(jobs, self._settings), strict=True):
            one.status = JobStatus.COMPLETED if error is None else JobStatus.FAILED
            one.return_value = error  # Hydra raises it when it reads the value of a failed job
        return returns

    def _described(self, overrides: list[str], number: int) -> JobReturn:
        """A job before it has run: its config and its folder, as Hydra's own launchers make them."""
        config = self._context.config_loader.load_sweep_config(self._config, overrides)
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        folder = Path(str(config.hydra.sweep.dir)).absolute() / str(config.hydra.sweep.subdir)
        hydra_config = OmegaConf.masked_copy(config, "hydra")
        with open_dict(config):
            del config["hydra"]
        return JobReturn(overrides=overrides, cfg=config, hydra_cfg=hydra_config, working_dir=str(folder))
