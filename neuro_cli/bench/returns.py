"""Mean return over test episodes, which confirms that a run reached its goal."""

import copy
from typing import Any

import torch
from torch import nn

from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.metric import RETURN
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.centre_evaluation import sums_over_chunks
from neuro_cli.task.reinforcement import Reinforcement

ELSEWHERE = 0x5EED_0F_F5E5  # mixed into the run's seed: test episodes that neither training nor evaluation uses


def mean_return(task: dict[str, Any], module: nn.Module, seed: int, episodes: int) -> float:
    """Return the mean return of ``module`` in the environment of the group ``task``; a run evaluates with its own ``seed``."""
    environment = make({"task": {**copy.deepcopy(task), "evaluation_episodes": episodes}}, "task", Reinforcement)
    environment.load(input_shape=None, device=torch.device("cpu"), seed=seed, batch_size=1)
    threads = Threads(1)
    try:
        return environment.summarise(sums_over_chunks(environment, module, SingleProcess(), threads))[RETURN.name]
    finally:
        threads.close()


def fresh_return(task: dict[str, Any], module: nn.Module, seed: int, episodes: int) -> float:
    """Return the mean return over other episodes than those of a run's evaluations with ``seed``."""
    return mean_return(task, module, seed ^ ELSEWHERE, episodes)
