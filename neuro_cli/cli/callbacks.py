"""Hydra's callbacks (``hydra.callbacks`` of a config), called as Hydra's own main function calls them."""

import warnings
from collections.abc import Callable
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf


def _event(name: str, reverse: bool = False) -> Callable[..., None]:
    """Return a method that calls ``name`` of each callback, the last one first where ``reverse``."""

    def tell(self: "Callbacks", **arguments: Any) -> None:
        for callback in self.callbacks[:: -1 if reverse else 1]:
            try:
                getattr(callback, name)(**arguments)
            except Exception as error:  # a callback ends no run, as in Hydra
                warnings.warn(f"Callback {type(callback).__name__}.{name} raised {type(error).__name__}: {error}", stacklevel=2)

    return tell


class Callbacks:
    """Callbacks that a ``config`` names; a launcher hands them on to the processes of its jobs."""

    def __init__(self, config: DictConfig) -> None:
        nodes = OmegaConf.select(config, "hydra.callbacks") or {}
        self.callbacks = [instantiate(node) for node in nodes.values()]

    on_run_start = _event("on_run_start")
    on_run_end = _event("on_run_end", reverse=True)
    on_multirun_start = _event("on_multirun_start")
    on_multirun_end = _event("on_multirun_end", reverse=True)
    on_job_start = _event("on_job_start")
    on_job_end = _event("on_job_end", reverse=True)
