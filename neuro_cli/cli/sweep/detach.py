"""Submission of a sweep's jobs to SLURM by a command that does not wait for them (``sweep.detach=true``)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from hydra.core.singleton import Singleton


class DetachedError(Exception):
    """End of a command whose jobs are submitted and continue by themselves."""


def submit(launcher: Any, jobs: Sequence[Sequence[str]], first: int) -> None:
    """Submit ``jobs``, the first of them with the number ``first``, as the plugin's ``launch`` does, which would then wait."""
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf  # type: ignore[import-untyped]
    from submitit import AutoExecutor

    common = {field.name for field in fields(BaseQueueConf)}  # the keys that submitit has for every kind of queue
    keys = dict(launcher.params)
    folder, restarts = keys.pop("submitit_folder"), keys.pop("max_num_timeout")
    executor = AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=restarts)
    executor.update_parameters(**{name if name in common else f"slurm_{name}": value for name, value in keys.items()})
    state = Singleton.get_state()
    work = [(list(texts), "hydra.sweep.dir", number, f"job_id_for_{number}", state) for number, texts in enumerate(jobs, first)]
    executor.map_array(launcher, *zip(*work, strict=True))
