"""Interface of algorithms, which turn the fitnesses of a generation into the next centre.

An algorithm of a centre proposes where a generation's candidates lie, turns their fitnesses into weights, and receives the
weighted sums of the perturbations from the distribution method. It never sees a rank, a socket or a model class.

Legend: P members, M columns, K rows of weights, T parents.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.step_size.auto import Auto
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.messages.did_you_mean import Suggesting
from neuro_cli.core.rounding import Rounding

# a member whose fitness is not finite is an error, or the last of its generation
RAISE, WORST = NON_FINITE = "raise", "worst"


Transform = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerScale:
    """Scale of each parameter tensor: ``sigma`` times its factor in ``factors``, by its name."""

    sigma: float
    factors: Mapping[str, float]


@dataclass(frozen=True)
class Proposal:
    """Member i is ``bases[parent[i]] + scale * eps_i``, or the base itself when i is in ``frozen``.

    ``bases`` (T, M), in the type of the centre; ``parent`` (P,) int, None: the first base of every member; ``scale`` (1,) or (M,)
    float32, > 0. ``layers``: the scale (M,) as one number for each parameter tensor, where it is such, for samplers that perturb
    layers. ``transform``: a linear function of rows of noise (D, M) whose result has the rows eps_i, each from its row alone.
    """

    bases: Tensor
    parent: np.ndarray | None
    scale: Tensor
    frozen: frozenset[int] = frozenset()
    layers: LayerScale | None = None
    transform: Transform | None = None

    @cached_property
    def sigma(self) -> float:
        """Scale of all parameters of a proposal, or the base of the factors of ``layers``. Cached: a GPU is waited for."""
        return float(self.scale) if self.layers is None else self.layers.sigma

    @classmethod
    def around(cls, centre: Tensor, scale: Tensor | float) -> "Proposal":
        """Propose members around one ``centre`` (M,); a number is the scale of every parameter."""
        if not isinstance(scale, Tensor):
            scale = torch.tensor([scale], dtype=torch.float32, device=centre.device)
        return cls(centre[None], None, scale)

    @property
    def has_parents(self) -> bool:
        """Return whether members start from different bases, or are a base."""
        return len(self.bases) > 1 or bool(self.frozen)

    def steps(self, noise: Tensor, members: np.ndarray) -> Tensor:
        """Return what ``members`` (n,) add to the first base, (n, M), from their ``noise`` (n, M), signs included."""
        steps = (noise if self.transform is None else self.transform(noise)) * self.scale.to(noise.dtype)
        if self.frozen:
            steps[np.isin(members, list(self.frozen))] = 0.0
        if self.parent is not None:
            parents = torch.from_numpy(self.parent[members]).to(noise.device)
            steps += (self.bases - self.bases[0])[parents].to(noise.dtype)
        return steps

    def parent_of(self, member: int) -> int:
        """Return the row of ``bases`` that a member descends from."""
        return 0 if self.parent is None else int(self.parent[member])


@dataclass(frozen=True)
class Combination:
    """Weights (K, P) float64; row k asks for the sum over i of weights[k, i] * moment_k(eps_i).

    ``moments`` (K,): 1 for eps, 2 for eps**2 - 1. ``unit``: weight of a fitness of 1 where weights are proportional to fitnesses.
    """

    weights: np.ndarray
    moments: tuple[int, ...]
    unit: float | None = None


@dataclass
class State:
    """State of an algorithm for a checkpoint: named tensors, and scalars that JSON can hold."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)

    def part(self, name: str) -> dict[str, Tensor]:
        """Return the tensors with names ``name.<rest>``, by the rest."""
        start = f"{name}."
        return {key.removeprefix(start): tensor for key, tensor in self.tensors.items() if key.startswith(start)}


class Algorithm(Suggesting, ABC):
    """Base of all options of the group ``algo``."""


class CentreAlgorithm(Algorithm):
    """Moves one solution, the centre. ``start`` comes first, then ask, combination, tell in every generation.

    ``uses_gradient``: trained by the gradient of the loss, without a population. ``needs_pairs``: members in mirrored pairs only.
    ``proportional``: weights are fitnesses times the :class:`Combination`'s unit. ``sums_add_up``: a rounding error in one
    generation's sums may be added to those of the next. ``non_finite``: raise | worst, for a member with a fitness that is not
    finite. ``auto``: values that the run chooses at its start, None for none. ``votes``: the result is a vote of members, which
    are compared over generations.
    """

    uses_gradient = False
    needs_pairs = False
    proportional = False
    sums_add_up = True
    non_finite = RAISE
    auto: Auto | None = None
    votes = False

    @property
    def needs_parameters(self) -> str | None:
        """Use of noise that only noise of parameters allows, as a message says it; None where weighted sums of it suffice."""
        return None

    def pair(self, mirrored: bool) -> None:
        """Take whether members are in mirrored pairs. Raises ConfigError where the algorithm needs pairs and has none."""

    @abstractmethod
    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        """Take the initial centre (M,), float32 or, for an algorithm that takes :meth:`round_by` next, bfloat16."""

    def round_by(self, rounding: Rounding) -> None:
        """Keep the centre in bfloat16, its steps by ``rounding``. Raises ConfigError where the algorithm cannot."""
        name = type(self).__name__.lower()
        raise ConfigError("weights", "bfloat16", f"algo={name} keeps a centre in float32; openai_es, ars, pgpe and sgd take both")

    def step_by(self, threads: Threads) -> None:
        """Take threads that may step parts of a large centre side by side."""

    @property
    @abstractmethod
    def centre(self) -> Tensor:
        """Centre (M,) of the next generation's candidates, float32 or bfloat16."""

    @property
    def solution(self) -> Tensor:
        """Parameters (M,) that are evaluated, saved and returned: the centre, or an average of centres."""
        return self.centre

    @property
    def optimizer(self) -> str | None:
        """Name of the class of optimizer that steps the centre; None where a formula does."""
        return None

    def sigma_at(self, generation: int) -> float | None:
        """Return a generation's standard deviation of perturbations, before it; the mean where each parameter has its own."""
        return None

    def rate_at(self, generation: int) -> float | None:
        """Return the learning rate of a generation; None where there is none."""
        return None

    @abstractmethod
    def state(self) -> State:
        """Return copies of the algorithm's state that the next generation depends on."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Restore a :meth:`state` of the algorithm, by copies: the caller may restore its tensors again."""


class PopulationAlgorithm(CentreAlgorithm):
    """Algorithm that learns from the fitnesses of a population.

    ``mirrored``: members 2j and 2j + 1 are the two sides of one direction, see :meth:`pair`. ``still``: the centre is a member or
    the start, and may stay where it is for as long as no member is better.
    """

    mirrored = False
    still = False

    def pair(self, mirrored: bool) -> None:
        if self.needs_pairs and not mirrored:
            raise ConfigError("sampler.antithetic", False, "the algorithm compares the members of pairs: true is needed")
        self.mirrored = mirrored

    @property
    def probe(self) -> Tensor | None:
        """Vector (M,) float64 that :meth:`probed` needs before :meth:`combination`; None where it needs nothing."""
        return None

    def probed(self, lengths: np.ndarray, products: np.ndarray) -> None:
        """Take the length of each member's eps and its product with the :attr:`probe`, both (P,) float64."""

    @abstractmethod
    def ask(self, generation: int) -> Proposal:
        """Propose the candidates of a generation of the algorithm."""

    @abstractmethod
    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        """Return the weights for fitnesses (n,) float64 of all P members, or of a subset when shaped in parts."""

    @abstractmethod
    def tell(self, generation: int, sums: Tensor) -> None:
        """Take the sums (K, M) float32 and move the centre."""

    def deviations(self, generation: int) -> Tensor:
        """Return the standard deviation (M,) of each parameter among a generation's members, before it."""
        return self.ask(generation).scale.expand_as(self.centre)

    def condition(self, generation: int) -> float:
        """Return the condition number of the members' covariance, before a generation."""
        deviations = self.deviations(generation)
        return float((deviations.max() / deviations.min()) ** 2)

    def stuck(self, generation: int) -> bool:
        """Test for a principal axis, another one before each generation, with a tenth of a deviation that changes no digit.

        False where the axes are those of the parameters.
        """
        return False

    @property
    def spans(self) -> list[tuple[int, int]] | None:
        """Columns [start, stop) whose sums may be told one after the other, all M in order; None: only all at once.

        What a large centre's sums would take of memory is then that of the longest span.
        """
        return None

    def tell_span(self, generation: int, sums: Tensor, start: int) -> None:
        """Take the sums (K, n) float32 of the span from column ``start`` on and move it: the same bits as by :meth:`tell`."""
        raise AssertionError("spans has none")

    def can_shape_parts(self) -> bool:
        """Return whether weights computed over parts of the population may be averaged."""
        return True


class GradientAlgorithm(CentreAlgorithm):
    """Algorithm that learns from the gradient of the loss."""

    uses_gradient = True

    @abstractmethod
    def tell_gradient(self, generation: int, gradient: Tensor) -> None:
        """Take the gradient (M,) float32 of the mean loss of the batch, and move the centre."""


def combination_of(algo: PopulationAlgorithm, generation: int, fitness: np.ndarray) -> Combination:
    """Return the weights of an algorithm for fitnesses (P,). Raises UserError for anything but a row of P for each moment."""
    combination = algo.combination(generation, fitness)
    needed = f"needed is Combination(weights, moments) with weights (moments, {len(fitness)})"
    if not isinstance(combination, Combination):
        raise UserError(f"{type(algo).__name__}.combination: it gave {type(combination).__name__}; {needed}")
    if np.shape(combination.weights) != (len(combination.moments), len(fitness)):
        shape = np.shape(combination.weights)
        raise UserError(f"{type(algo).__name__}.combination: it gave weights {shape} for moments {combination.moments}; {needed}")
    return combination
