"""Tiny networks with sampler=activation, bound without a config, in float64, to compare estimates with torch's gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.seeds import seeded
from neuro_cli.distribution.base import Distribution
from neuro_cli.distribution.local import Local
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.runner.bind import Numbers, Population, bind
from neuro_cli.task.base import Batch, Task

SIGMA, GENERATION = 1e-3, 2


class Made(Task):
    """Random examples of shape ``form`` with a squared error, or of ``words`` > 0 numbers with a cross-entropy.

    ``tokens``: a reward for each number. ``same``: the same examples in every generation.
    """

    score_names = ("fitness",)
    metrics = ()
    evaluation_chunks = 0

    def __init__(
        self, form: tuple[int, ...], outputs: int, batch_size: int, words: int = 0, tokens: bool = False, same: bool = False
    ) -> None:
        self.form, self.outputs, self.words, self.tokens, self.batch_size = form, outputs, words, tokens, batch_size
        self.same = same

    def load(self, **_: Any) -> None:
        pass

    def batch(self, generation: int, start: int, stop: int) -> Batch:
        drawn = torch.Generator().manual_seed(0 if self.same else generation)
        shape = (self.batch_size, *self.form)
        if not self.words:
            inputs = torch.randn(shape, generator=drawn)
            targets = torch.randn(self.batch_size, self.outputs, generator=drawn)
        else:
            inputs = torch.randint(self.words, shape, generator=drawn)
            targets = torch.randint(self.outputs, shape if self.tokens else shape[:1], generator=drawn)
        return Batch(inputs[start:stop].clone(), targets[start:stop])

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        made = module(batch.inputs)
        if not self.words:
            return -(made - batch.targets.to(made.dtype)).square().mean(1)[:, None]
        if not self.tokens:
            return -F.cross_entropy(made, batch.targets, reduction="none")[:, None]
        return (
            -F.cross_entropy(made.flatten(0, 1), batch.targets.flatten(), reduction="none").view(*made.shape[:2], 1)
            / made.shape[1]
        )

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        rewards = Made.rewards(self, module, batch)
        return rewards if rewards.dim() == 2 else rewards.sum(1)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return -Made.example_scores(self, module, batch).mean()

    def evaluate_chunk(self, module: nn.Module, chunk: int) -> np.ndarray:
        raise AssertionError

    def summarise(self, sums: np.ndarray) -> dict[str, float]:
        raise AssertionError


def bound(
    make: Callable[[], nn.Module], task: Task, world: World | None = None, method: Distribution | None = None,
    algo: PopulationAlgorithm | None = None, threads: int = 1, precision: torch.dtype = torch.float64, **options: Any,
) -> Population:  # fmt: skip
    """Bind a population of a network with the same initial parameters every time."""
    with seeded(3):
        module = make()
    sampler = Activation(**{"correction": "always"} | options)
    algo = algo or OpenAIES(sigma=SIGMA, shaping="raw")
    numbers = Numbers(5, 2, False, precision)
    world, method = world or SingleProcess(), method or Local()
    return bind(module, task, algo, sampler, method, world, Threads(threads), numbers)


def estimate(parts: Population, generation: int = GENERATION) -> Tensor:
    """Return the estimate (M,) of the fitness's gradient in one generation."""
    method, algo = parts.distribution, parts.algo
    assert isinstance(algo, PopulationAlgorithm)
    scores = method.scores(generation, algo.ask(generation))
    return method.combine(generation, algo.combination(generation, scores[:, 0]))[0].double()


def gradient(parts: Population, generation: int = GENERATION) -> Tensor:
    """Return the same by back-propagation."""
    job = parts.distribution.job
    _, made = job.scorer.gradient(parts.algo.centre, parts.task.batch(generation, 0, parts.task.batch_size))
    return -made.double()
