"""Binding of a population's parts on one rank; runs and :class:`neuro_cli.Evolution` both begin here."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.algo.base import WORST, CentreAlgorithm, State
from neuro_cli.algo.centre.optimizer import OptimizedCentre
from neuro_cli.algo.step_size.auto import AUTO, Gains
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.kernels.graphs import Graphs
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.memory_formats import format_of
from neuro_cli.core.module.torch_errors import advised
from neuro_cli.core.noise import Noise
from neuro_cli.core.rounding import Rounding
from neuro_cli.distribution.base import Distribution, PopulationContext
from neuro_cli.fabric.base import World
from neuro_cli.sampler.base import Estimator, Sampler
from neuro_cli.scoring.base import PassSettings, Scorer, ScoringSettings
from neuro_cli.scoring.choice import scorer_of
from neuro_cli.scoring.modes import refuse_computed_by_modes
from neuro_cli.scoring.training_state import say_padding_rows, say_training_state
from neuro_cli.task.base import Task

ScorerMaker = Callable[[ScoringSettings, Tensor], Scorer]


@dataclass
class Population:
    """Population of ``size`` members on one rank.

    ``model``: a skeleton without parameter storage, see ``ParameterLayout.release_storage``.
    """

    world: World
    device: torch.device
    threads: Threads
    model: nn.Module
    layout: ParameterLayout
    task: Task
    algo: CentreAlgorithm
    distribution: Distribution
    clock: Clock
    size: int

    def state(self, everywhere: bool = False) -> State:
        """Return the state for the next generation, on the CPU, with the solution as ``parameters``.

        Every rank calls this. Rank 0 also gathers what the other ranks' methods keep. The others get an empty state, or with
        ``everywhere`` all but the gathered part.
        """
        method = self.distribution.state()
        if self.world.rank and not everywhere:
            return State()
        algo = self.algo.state()
        tensors = {f"algo.{name}": tensor.cpu() for name, tensor in algo.tensors.items()}
        tensors |= {f"distribution.{name}": tensor.cpu() for name, tensor in method.tensors.items()}
        tensors |= {f"task.{name}": tensor.cpu() for name, tensor in self.task.state().items()}
        tensors |= {f"scorer.{name}": tensor.cpu() for name, tensor in self.distribution.job.scorer.state().items()}
        tensors["parameters"] = self.algo.solution.cpu()
        channels_last = self.task.memory_format is torch.channels_last  # memory order of the flat parameters
        scalars = {"algo": algo.scalars, "distribution": method.scalars, "channels_last": channels_last}
        if self.algo.auto is not None and self.algo.auto.gains is not None:
            scalars["gains"] = self.algo.auto.gains.plain()
        return State(tensors, scalars)

    def restore(self, state: State) -> None:
        """Restore rank 0's :meth:`state`. Every rank calls this. Noise and data order need no state."""
        if format_of(state.scalars) is not self.task.memory_format and any(len(place.shape) == 4 for place in self.layout.places):
            raise AssertionError("the checkpoint's vectors have another order of parameters")
        tensors = {name: tensor.to(self.device) for name, tensor in state.part("algo").items()}
        if self.algo.auto is not None and "gains" in state.scalars:
            self.begin(Gains.of(state.scalars["gains"]), self.algo.centre)
        self.algo.restore(State(tensors, state.scalars["algo"]))
        self.distribution.restore(State(state.part("distribution"), state.scalars["distribution"]))
        self.distribution.job.scorer.restore({name: tensor.to(self.device) for name, tensor in state.part("scorer").items()})
        self.task.restore(state.part("task"))
        if not torch.equal(self.algo.solution.cpu(), state.tensors["parameters"]):
            raise AssertionError("the restored solution differs from the checkpoint's")

    def begin(self, gains: Gains, centre: Tensor) -> None:
        """Begin the algorithm at ``centre`` (M,) with the values that ``gains`` chose."""
        algo, seed = self.algo, self.distribution.job.sampler.noise.seed
        assert isinstance(algo, OptimizedCentre)
        assert algo.auto is not None
        algo.auto.gains = gains
        sigma = algo.sigma_for(self.layout) if gains.sigma is None else gains.sigma
        algo.begin_with(sigma, gains.rate, centre, self.layout, self.size, seed)


@dataclass(frozen=True)
class Numbers:
    """Numbers of a population. ``per_example``: each direction scores its own share of the batch.

    ``graphs``: passes of small members on a GPU become CUDA graphs.
    """

    seed: int
    population: int
    per_example: bool
    precision: torch.dtype
    graphs: bool = False


def bind(
    model: nn.Module,
    task: Task,
    algo: CentreAlgorithm,
    sampler: Estimator,
    distribution: Distribution,
    world: World,
    threads: Threads,
    numbers: Numbers,
    make_scorer: ScorerMaker = scorer_of,
    start: bool = True,
) -> Population:
    """Bind the parts to each other; the centre takes the parameters of ``model``.

    ``task`` must be loaded, and ``model`` on its device. ``start``: the algorithm has not begun.

    Raises UserError where they do not fit.
    """
    layout = ParameterLayout(model, task.memory_format is torch.channels_last)
    refuse_computed_by_modes(model)
    clock = Clock()
    initial = layout.joined(model)
    if initial is None:
        initial = layout.flatten(model)
    device, population = initial.device, numbers.population
    sampler.bind(Noise(numbers.seed, layout.size, device, threads), population, layout)
    settings = PassSettings(
        module=model, layout=layout, task=task, device=device, precision=numbers.precision, threads=threads, clock=clock,
        batch_size=task.batch_size,
    )  # fmt: skip
    if isinstance(sampler, Activation):
        make: Callable[[Tensor], Scorer] = partial(sampler.scorer, settings)
    else:
        assert isinstance(sampler, Sampler)
        say_padding_rows(settings)
        make = partial(make_scorer, _with_sampler(settings, sampler, numbers, algo.non_finite == WORST))
    layout.release_storage(model)
    if numbers.graphs and device.type != "cuda":
        settings.warn(f"cuda_graphs=true changes nothing on device={device.type}")
    say_training_state(settings, initial)
    if algo.auto is not None and not isinstance(sampler, Sampler):
        key = algo.auto.keys.split()[0]
        raise ConfigError(key, AUTO, "measures members that are networks: not with sampler=activation; give a number")
    if algo.votes:
        _prepare_vote(task, numbers)
    with advised(type(model).__name__, numbers.precision):
        scorer = make(initial)
    population = scorer.population
    if start:
        algo.start(initial, layout, population, numbers.seed)
        if layout.dtype != torch.float32:
            algo.round_by(Rounding(Noise(numbers.seed, layout.size, device, threads)))
        algo.step_by(threads)
    distribution = distribution.settled(
        PopulationContext(
            world=world,
            algo=algo,
            sampler=sampler,
            scorer=scorer,
            clock=clock,
            population=population,
            batch_size=task.batch_size,
            columns=layout.size,
        )
    )
    return Population(world, device, threads, model, layout, task, algo, distribution, clock, population)


def _prepare_vote(task: Task, numbers: Numbers) -> None:
    """Let members of all generations meet the same examples. Raises ConfigError for a task without votes."""
    name = type(task).__name__
    if not task.votes:
        raise ConfigError("algo", "random_vote", f"{name} has no vote: needs a task of classes, or task=reward, in neuro train")
    if numbers.per_example:
        raise ConfigError("layout", "per_example", "algo=random_vote compares all members on the same examples: shared_batch")
    task.keep_batch()


def _with_sampler(settings: PassSettings, sampler: Sampler, numbers: Numbers, tolerant: bool) -> ScoringSettings:
    """The settings of members that are networks. Raises ConfigError for examples that the directions cannot share out."""
    if numbers.per_example and settings.batch_size % sampler.directions:
        allowed = f"layout=per_example needs a multiple of the {sampler.directions} directions of noise"
        raise ConfigError("batch_size", settings.batch_size, allowed)
    if numbers.graphs and settings.device.type == "cuda":
        sampler.graphs = Graphs("sums over directions")
    return ScoringSettings(
        **vars(settings), sampler=sampler, per_example=numbers.per_example, graphs=numbers.graphs, tolerant=tolerant
    )
