"""The mean return of a policy over episodes that no look has met: what a goal that a look has reached is confirmed by."""

import copy
from typing import Any

import torch
from torch import nn

from neuro_cli.core.metric import RETURN
from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import make
from neuro_cli.runner.centre import sums_over_chunks
from neuro_cli.task.reinforcement import Reinforcement

ELSEWHERE = 0x5EED_0F_F5E5  # of the run's seed: other test episodes, none of which training can meet either


def mean_return(task: dict[str, Any], module: nn.Module, seed: int, episodes: int) -> float:
    """Of ``module`` in the environment of the group ``task``. ``seed``: looks of a run use the run's own."""
    made: Reinforcement = make({"task": {**copy.deepcopy(task), "evaluation_episodes": episodes}}, "task", Reinforcement)
    made.load(input_shape=None, device=torch.device("cpu"), seed=seed, batch_size=1)
    threads = Threads(1)
    try:
        return made.summarise(sums_over_chunks(made, module, SingleProcess(), threads))[RETURN.name]
    finally:
        threads.close()


def fresh_return(task: dict[str, Any], module: nn.Module, seed: int, episodes: int) -> float:
    """As :func:`mean_return`, over other episodes than the looks of a run with ``seed``."""
    return mean_return(task, module, seed ^ ELSEWHERE, episodes)
