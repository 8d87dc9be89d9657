"""Interfaces of a sampler, and of what it has in common with noise on activations.

A sampler defines three operations: the perturbation of a member, its application (written into a flat vector, or inside the
forward pass of many members at once), and the weighted sum of all perturbations over a slice of columns. It knows nothing of
fitness, ranks or models.

Legend: P members, D directions of noise, M columns, K rows of weights. Member ``i`` has perturbation
eps_i = sign_i * noise[direction_i]; with ``antithetic`` members 2j and 2j + 1 are the two sides of direction j
(mirrored sampling, Brockhoff et al. 2010).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core.chain import Chain
from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.kernels.graphs import Graphs
from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.messages.did_you_mean import Suggesting
from neuro_cli.core.noise import Noise
from neuro_cli.core.postponed import Postponed
from neuro_cli.core.rows import Geometry, MemberBatch


class Operator(Protocol):
    """Operator of a layer with noise, linear or a convolution, without its bias. ``geometry`` is None for a linear layer.

    ``transposed``: it reads the channels that are the weight's rows and writes the others.
    """

    geometry: Geometry | None
    channel: int  # dimension of the activations that holds the channels
    transposed: bool

    def __call__(self, x: Tensor, weight: Tensor, groups: int | None = None) -> Tensor:
        """Apply the layer with another weight, and with other groups when they are given."""


class Perturbation(ABC):
    """Perturbation, noise of some directions in the form that a forward pass over all of them applies."""

    rows: MemberBatch
    chains = False  # whether :meth:`serves` holds for some
    loops = False  # whether compiled loops serve layers on a CPU: they take a second to load

    def drawn(self) -> "tuple[Tensor, Callable[[Tensor], Perturbation]] | None":
        """Return the tensor that all noise is computed from, and a function that replaces it in a copy.

        None where the pass draws noise, or lets the host choose some.
        """
        return None

    @contextmanager
    def of(self, rows: MemberBatch) -> Iterator[None]:
        """Apply the noise to other rows of the same directions within the context."""
        mine, self.rows = self.rows, rows
        try:
            yield
        finally:
            self.rows = mine

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        """Return the outputs (n, ..) of a layer for all sides where a device has a faster way, else None.

        ``shift``: the place of the bias, None where it has no noise. ``x``: n rows, or those of one side for all of them.
        """
        return None

    def serves(self, chain: Chain, x: Tensor) -> bool:
        """Return whether :meth:`chain` computes a chain of layers on ``x``."""
        return False

    def chain(self, chain: Chain, x: Tensor) -> Tensor:
        """Return the outputs (n, ..) of a chain of layers for all sides by compiled loops; ``x``: as of :meth:`layer`."""
        raise NotImplementedError

    def postponed(self, x: Tensor, weight: Tensor, lead: Sequence[int], watched: bool) -> Postponed | None:
        """Return an object in which layers wait, the first with ``weight``; None where that is better computed at once.

        ``x`` (S or 1, D, m, I); ``lead`` and ``watched``: as of :class:`neuro_cli.core.postponed.Postponed`.
        """
        return None

    def recurrence(
        self, kind: int, x: Tensor, state: Sequence[Tensor], weights: Sequence[Tensor | None], places: Sequence[Place | None],
        backwards: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...]] | None:  # fmt: skip
        """Return outputs (n, T, H) and last state of a recurrent layer for all sides by compiled loops, None as :meth:`chain`.

        ``kind``: a number of :mod:`neuro_cli.core.kernels.own_recurrence`. ``x`` (n, T, I): as of :meth:`layer`; ``state``: parts
        (n, H); ``weights``: of input and state, and biases, None for none; ``places``: None for one without noise.
        """
        return None

    @abstractmethod
    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        """Return ``y`` plus what the noise of the weight at ``place`` adds to ``operator`` on ``x``; may write to ``y``."""

    @abstractmethod
    def vectors(self, place: Place) -> Tensor:
        """Return the noise (D, values) of a small parameter (bias, scale of a norm), in the order of the flat vector."""

    @abstractmethod
    def values(self, place: Place) -> Tensor:
        """Return the noise of a parameter, ``(D, *shape)``."""

    @abstractmethod
    def lines(self, place: Place, index: Tensor) -> Tensor:
        """Return the noise ``(D, k, *shape[1:])`` of the parameter's rows ``index[direction]`` (D, k)."""

    def add_lines(self, place: Place, index: Tensor, y: Tensor) -> Tensor:
        """Add scale times the noise of rows ``index`` (n, k) of a parameter to ``y`` ``(n, k, *shape[1:])``, perhaps in place."""
        scales = self.rows.scales
        split = index.unflatten(0, (len(scales), self.rows.directions, -1)).transpose(0, 1)  # (D, S, e, k)
        noise = self.lines(place, split.flatten(1)).unflatten(1, split.shape[1:]).transpose(0, 1)
        return self.rows.add(y, noise.flatten(0, 2).to(y.dtype))


PIECE = 2**20  # numbers of noise or members in memory at once
Transform = Callable[[Tensor], Tensor]


class Learner(Protocol):
    """Properties of an algorithm that an :class:`Estimator` asks for, see ``CentreAlgorithm``."""

    proportional: bool

    @property
    def needs_parameters(self) -> str | None:
        """Use of noise that only noise of parameters allows, as a message says it; None for none."""


class Estimator(Suggesting, ABC):
    """Noise of a run, as algorithms and distribution methods use it: directions, and weighted sums over them.

    There are two kinds. With noise of parameters (:class:`Sampler`) a member is a network of its own; with noise on activations
    a member is a pass of the centre's network. ``antithetic``: members in mirrored pairs.
    """

    def __init__(self, antithetic: bool = False) -> None:
        self.antithetic = boolean("sampler.antithetic", antithetic)

    def bind(self, noise: Noise, population: int, layout: ParameterLayout) -> None:
        """Take the noise of the run. Raises ConfigError when the population does not fit."""
        self.noise, self.population, self.layout = noise, population, layout
        self.check(population)

    @abstractmethod
    def check(self, population: int) -> None:
        """Raise ConfigError when ``population`` does not fit the sampler."""

    def serve(self, algo: Learner) -> None:
        """Prepare the sampler for an algorithm. Raises ConfigError where it does not fit."""

    def side(self, member: int) -> tuple[int, int]:
        """Return a member's direction, and its sign +1 or -1."""
        return (member // 2, 1 - 2 * (member % 2)) if self.antithetic else (member, 1)

    def signed_directions(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`side` of many members, both (n,) int64."""
        return (members // 2, 1 - 2 * (members % 2)) if self.antithetic else (members, np.ones_like(members))

    @property
    def directions(self) -> int:
        """Number of directions of noise in the population."""
        return self.side(self.population - 1)[0] + 1

    @abstractmethod
    def combine(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, members: range, start: int, stop: int,
        unit: float | None = None,
    ) -> Tensor:  # fmt: skip
        """Return sums (K, stop - start): row k is the sum over ``members`` of weights[k, i] * moment_k(eps_i).

        ``weights`` (K, len(members)) float64; ``moments`` (K,): 1 for eps, 2 for eps**2 - 1. ``unit``: weight of a fitness of 1
        where weights are proportional to fitnesses, in one of the sums that ranks share. A column has the same bits in any slice.
        """

    def merged(self, weights: np.ndarray, moments: Sequence[int], members: range) -> tuple[np.ndarray, range]:
        """Merge the weights of ``members`` by direction: weights (K, D), and the directions."""
        first, last = self.side(members[0])[0], self.side(members[-1])[0]
        if not self.antithetic:
            return weights.astype(np.float64), range(first, last + 1)
        if members.start % 2 or members.stop % 2:  # a side without its partner
            weights = np.pad(weights, ((0, 0), (members.start % 2, members.stop % 2)))
        signs = np.array([[-1.0 if moment == 1 else 1.0] for moment in moments])  # a square has the same sign on both sides
        return weights[:, 0::2] + signs * weights[:, 1::2], range(first, last + 1)

    @property
    def noise_period(self) -> int | None:
        """Number n of directions, [k n, (k + 1) n), that share noise. None: all of a generation do."""
        return None

    def projections(self, generation: int, members: range, probe: Tensor) -> np.ndarray:
        """Return the length of each member's noise and its product with ``probe`` (M,), as (n, 2)."""
        raise AssertionError("serve() refuses algorithms that ask for them")


class Sampler(Estimator):
    """Base of all samplers: noise of parameters.

    ``reuses_noise``: a forward pass over many directions costs far less than one for each. ``compiled``: linear layers of such a
    pass on a CPU multiply by each member's weights in compiled loops. ``at_once``: those of a module that reads their outcome
    unseen, as scripted functions do, do not wait until it is used. ``graphs``: recorded sums on a GPU.
    ``room``: memory that the next sums may be written to, by a caller who is done with those before.
    """

    reuses_noise = False
    compiled = False
    at_once = False
    graphs: Graphs | None = None
    room: Tensor | None = None

    @property
    def few_examples(self) -> int:
        """Most examples of a member with which a pass over many directions is faster on a CPU, where noise is reused.

        With more, a large member's own pass costs less than the second layer that reused noise needs.
        """
        return 8

    def check(self, population: int) -> None:
        if self.antithetic and population % 2:
            raise ConfigError("population", population, "antithetic pairs need an even population")

    def combine(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, members: range, start: int, stop: int,
        unit: float | None = None,
    ) -> Tensor:  # fmt: skip
        merged, directions = self.merged(weights, moments, members)
        return self.sums(merged, moments, generation, directions, start, stop)

    @abstractmethod
    def sums(
        self, weights: np.ndarray, moments: Sequence[int], generation: int, directions: range, start: int, stop: int
    ) -> Tensor:
        """Return :meth:`combine` from the ``weights`` (K, D) of directions; row k has moment moments[k]."""

    def projections(self, generation: int, members: range, probe: Tensor) -> np.ndarray:
        directions, signs = self.signed_directions(np.arange(members.start, members.stop))
        first, stop, length = int(directions[0]), int(directions[-1]) + 1, max(1, PIECE // len(probe))
        parts = []
        for low in range(first, stop, length):
            noise = self.explicits(generation, range(low, min(low + length, stop))).double()
            parts.append(torch.stack([noise.square().sum(1).sqrt(), noise.mul_(probe).sum(1)], dim=1))
        rows: np.ndarray = torch.cat(parts).cpu().numpy()[directions - first]
        rows[:, 1] *= signs
        return rows

    def period_of(self, direction: int) -> int:
        """Return the number of a direction's period of the sampler."""
        return direction // self.noise_period if self.noise_period else 0

    def prepare(self, generation: int, directions: range) -> None:
        """Draw the noise that the directions share, by all threads, before tasks of the pool ask for it one by one."""

    @abstractmethod
    def explicit(self, generation: int, direction: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the noise (M,) of one direction by the sampler's definition, in plain torch operations: the reference."""

    def explicits(self, generation: int, directions: range) -> Tensor:
        """Return :meth:`explicit` of each direction as the rows (D, M) of a tensor."""
        return torch.stack([self.explicit(generation, direction) for direction in directions])

    def explicit_part(
        self, generation: int, direction: int, name: str, first: int, last: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Return values [first, last) of :meth:`explicit`, complete rows of the parameter ``name``; a new tensor."""
        start = next(place.start for place in self.layout.places if place.name == name)
        return self.explicit(generation, direction, dtype)[start + first : start + last].clone()

    @abstractmethod
    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        """Write base + scale * noise to ``plus`` and base - scale * noise to ``minus``, all (M,); scale (1,) or (M,)."""

    def place(
        self,
        base: Tensor,
        scale: Tensor,
        transform: Transform | None,
        generation: int,
        direction: int,
        plus: Tensor | None,
        minus: Tensor | None,
    ) -> None:
        """Write as :meth:`perturb` does, after a linear ``transform`` of rows of noise (D, M), None for none."""
        if transform is None:
            self.perturb(base, scale, generation, direction, plus, minus)
            return
        step = scale * transform(self.explicit(generation, direction)[None])[0]
        if plus is not None:
            torch.add(base, step, out=plus)
        if minus is not None:
            torch.sub(base, step, out=minus)

    def write_members(
        self, bases: Tensor, parents: np.ndarray | None, scale: Tensor, transform: Transform | None, generation: int,
        directions: np.ndarray, signs: np.ndarray, out: Tensor,
    ) -> None:  # fmt: skip
        """Write n members into ``out`` (n, M), each with the bits that :meth:`place` gives it.

        Row r is ``bases[parents[r]] + signs[r] * scale * noise of directions[r]``; all ``signs`` are +1 or -1, and ``directions``
        ascend. ``bases`` (T, M); ``parents`` (n,), None: the first base of every row.
        """
        for row, (direction, sign) in enumerate(zip(directions.tolist(), signs.tolist(), strict=True)):
            base = bases[0 if parents is None else int(parents[row])]
            sides = (out[row], None) if sign > 0 else (None, out[row])
            self.place(base, scale, transform, generation, direction, *sides)

    @abstractmethod
    def perturbation(self, generation: int, first: int, rows: MemberBatch, dtype: torch.dtype) -> Perturbation:
        """Return the noise of directions [first, first + rows.directions) for a forward pass in ``dtype``."""
