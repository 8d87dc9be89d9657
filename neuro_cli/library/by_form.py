"""Noise on activations in a user's loop: a population for each form of batch, since passes of other shapes have other noise."""

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from torch import Tensor, nn

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.activation_noise.scorer import ActivationScorer
from neuro_cli.algo.base import CentreAlgorithm
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Modes, Threads
from neuro_cli.distribution.auto import Auto
from neuro_cli.distribution.base import Distribution
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.local import Local
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.fabric.base import World
from neuro_cli.runner.bind import Numbers, Population, bind
from neuro_cli.task.base import Task

FORMS = 16  # populations that are kept: each has copies of the module for its threads
STATELESS = (Auto, ChromosomeUpdates, Local, Replicated)


@dataclass
class ByForm:
    """Populations that share an algorithm, noise and what predictions learn. ``make_form``: returns a copy of the module to bind.

    Raises ConfigError for a distribution method whose state belongs to one form.
    """

    make_form: Callable[[], nn.Module]
    task: Task
    algo: CentreAlgorithm
    sampler: Activation
    distribution: Distribution
    world: World
    threads: Threads
    numbers: Numbers
    _populations: dict[Hashable, Population] = field(default_factory=dict)
    _begun: bool = False

    def __post_init__(self) -> None:
        rounds = getattr(self.distribution, "wire", "float32") != "float32"
        if not isinstance(self.distribution, STATELESS) or rounds:
            allowed = "with noise on activations: auto, replicated, local, or chromosome_updates with wire=float32"
            raise ConfigError("distribution", self.distribution.name, allowed)

    def at(self, form: Hashable) -> Population:
        """Return the population for batches of this form."""
        if form not in self._populations:
            if len(self._populations) >= FORMS:
                del self._populations[next(iter(self._populations))]
            # copies, since each binding belongs to one form: those of the sampler share what it learns
            sampler, distribution = copy.copy(self.sampler), copy.deepcopy(self.distribution)
            self._populations[form] = bind(
                self.make_form(), self.task, self.algo, sampler, distribution, self.world, self.threads, self.numbers,
                start=not self._begun,
            )  # fmt: skip
            if isinstance(distribution, Auto):  # one choice serves all forms: it calls the algorithm, which then has begun
                self.distribution = type(self._populations[form].distribution)()
            self._begun = True
        return self._populations[form]

    def refresh(self, module: nn.Module) -> None:
        """Copy the buffers and frozen parameters of ``module`` to the copies that passes use."""
        for population in self._populations.values():
            scorer_of(population).refresh(module)

    def clear(self, begun: bool = True) -> None:
        """Forget the populations of all forms, since the module has changed. ``begun``: keep the algorithm."""
        self._populations, self._begun = {}, self._begun and begun


def scorer_of(population: Population) -> ActivationScorer:
    """Return the scorer of a population of one form, with noise on activations."""
    scorer = population.distribution.job.scorer
    assert isinstance(scorer, ActivationScorer)
    return scorer


def fit_inputs(inputs: Tensor | None, modes: Modes) -> Tensor:
    """Return the inputs of a step with noise on activations. Raises ConfigError without them, and under autocast."""
    if inputs is None:
        allowed = "needs step(fitness, inputs, targets): each example's value rewards its own noise"
        raise ConfigError("sampler", "activation", allowed)
    if modes.autocast:
        raise ConfigError("autocast", "on", "not with sampler=activation; precision='bfloat16' runs its passes so")
    return inputs
