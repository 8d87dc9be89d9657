"""CR-FM-NES: natural evolution strategy with a covariance D (I + v v^T) D, linear in the parameters.

Nomura, Ono, "Fast moving natural evolution strategy for high-dimensional problems", CEC 2022, arXiv:2201.11422, algorithm 1,
without its handling of constraints; the natural gradient by v and D is that of Akimoto, Auger, Hansen, "Comparison-based natural
gradient optimization in high dimension", GECCO 2014. Members are m + sigma D y with y = z + (sqrt(1 + <v, v>) - 1) <z, u> u,
u = v / sqrt(<v, v>). The equations' sums over y follow from three sums over the noise z.

Legend: P members, n parameters; w weights of members, with sum 0.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, Proposal, State
from neuro_cli.algo.centre.formula import OwnCentre
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.seeds import numbers_of
from neuro_cli.core.shaping import by_rank, is_flat

FIRST_DIRECTION = 0xF3  # address of the initial v
Numbers = Any  # a vector (n,) float64: a tensor, or numpy's view of one on a CPU


@dataclass(frozen=True)
class Moments:
    """Sums over members of w z, w <z, u> z and w (z**2 - 1), each (n,), and of w <z, u> and w <z, u>**2."""

    first: Numbers
    along: Numbers
    second: Numbers
    product: float
    square: float


class CRFMNES(OwnCentre):
    """Moves the centre by ranks, or by ranks and lengths of noise while its path is long; sigma, D and v follow.

    ``sigma`` > 0: initial step size. ``layers``: factors on it by pattern of parameter names. Members are in mirrored pairs, at
    least two of them; n >= 2. Raises ConfigError.
    """

    needs_pairs = True
    sums_add_up = False  # squares of noise become variances, which a late correction would make negative

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if population < 4:
            raise ConfigError("population", population, "algo=cr_fm_nes compares members of two pairs: at least 4")
        if layout.size < 2:
            raise ConfigError("model", f"{layout.size} parameters", "algo=cr_fm_nes has no direction for fewer than 2")
        n = layout.size
        spread, self._size = self._begin(centre, layout), self.sigma
        first = numbers_of(seed, FIRST_DIRECTION).standard_normal(n) / math.sqrt(n)
        self._v = torch.from_numpy(first).to(centre.device)
        self._along: Tensor | None = None  # unit vector of v, once something asks for it
        self._d = torch.ones_like(self._v)
        if spread is not None:  # the determinant is 1, as after every step
            mean = spread.double().log().mean().exp()
            self._d, self._size = spread.double() / mean, self.sigma * float(mean)
        self._path, self._step_path = torch.zeros_like(self._v), torch.zeros_like(self._v)
        self._lengths, self._products = np.zeros(population), np.zeros(population)
        self._constants(n, population)

    def _constants(self, n: int, population: int) -> None:
        ranked = np.maximum(0.0, math.log(population / 2 + 1) - np.log(np.arange(1, population + 1)))
        self._ranked = ranked  # utilities before the mean is subtracted
        shares = ranked / ranked.sum()
        self._mass = 1 / float((shares**2).sum())
        self._step_rate = (self._mass + 2) / (n + self._mass + 5)
        self._path_rate = (4 + self._mass / n) / (n + 4 + 2 * self._mass / n)
        self._rank_one = (
            2 / ((n + 1.3) ** 2 + self._mass) * max(0, n - 5) / 6
        )  # the paper has n >= 5; a negative rate would unlearn the path
        self._length = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))  # expected length of a normal vector
        self._by_length = inverse_of_h(n) * min(1.0, math.sqrt(population / n))
        self._form_rate = math.tanh((min(0.02 * population, 3 * math.log(n)) + 5) / (0.23 * n + 25))
        stagnates = math.tanh((0.024 * population + 0.7 * n + 20) / (n + 12))
        converges = 2 * math.tanh((0.025 * population + 0.75 * n + 10) / (n + 4))
        self._size_rates = {"moves": 1.0, "stagnates": stagnates, "converges": converges}

    def deviations(self, generation: int) -> Tensor:
        return self._size * self._d * (1 + self._v.square()).sqrt()

    @property
    def needs_parameters(self) -> str | None:
        return "learns a covariance from the squares of its noise"

    def can_shape_parts(self) -> bool:
        return False  # ranks and lengths are those of the whole population

    @property
    def probe(self) -> Tensor | None:
        if self._along is None:
            self._along = self._v / self._v.norm()
        return self._along

    def probed(self, lengths: np.ndarray, products: np.ndarray) -> None:
        self._lengths, self._products = lengths, products

    def ask(self, generation: int) -> Proposal:
        along, more = self.probe, math.sqrt(1 + float(self._v.square().sum())) - 1
        assert along is not None

        def stretched(noise: Tensor) -> Tensor:
            exact = noise.double()
            products = (exact * along).sum(1, keepdim=True)
            return (exact + along * (more * products)).to(noise.dtype)

        return Proposal(self._centre[None], None, (self._size * self._d).to(self._centre.dtype), transform=stretched)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._flat = is_flat(fitness)
        ranked = by_rank(fitness, self._ranked[::-1])
        by_length = ranked * np.exp(self._by_length * (self._lengths - self._lengths.max()))
        self._weights = [weights / weights.sum() - 1 / len(fitness) for weights in (ranked, by_length)]
        rows = [part for w in self._weights for part in (w, w * self._products, w)]
        return Combination(np.array(rows), (1, 1, 2) * 2)

    def tell(self, generation: int, sums: Tensor) -> None:
        if self._flat:
            return  # ties: lengths of noise alone must not change sigma and D
        rows, path, rate = _quick(sums.double()), _quick(self._step_path), self._step_rate
        path *= 1 - rate
        path += math.sqrt(rate * (2 - rate) * self._mass) * rows[0]
        length = math.sqrt(_product(path, path))
        phase = "moves" if length >= self._length else "stagnates" if length >= 0.1 * self._length else "converges"
        moves = phase == "moves"
        weights, z = self._weights[moves], rows[3 * moves : 3 * moves + 3]
        product, square = float(weights @ self._products), float(weights @ self._products**2)
        self._learn(Moments(z[0], z[1], z[2], product, square))
        self._size *= math.exp(self._size_rates[phase] / 2 * float(z[2].mean()))

    def _learn(self, z: Moments) -> None:
        """Move the centre, the path, v and D; the path counts as another member."""
        v, d, path = _quick(self._v), _quick(self._d), _quick(self._path)
        squared = _product(v, v)
        norm, stretch = math.sqrt(squared), math.sqrt(1 + squared)
        u, more = v / norm, stretch - 1
        step = d * (z.first + more * z.product * u)  # the sum of w D y
        self._centre.add_(torch.as_tensor(self._size * step).to(self._centre.dtype))
        path *= 1 - self._path_rate
        path += math.sqrt(self._path_rate * (2 - self._path_rate) * self._mass) * step
        own, one = path / d, self._rank_one
        inner = _product(u, own)
        # sums of w y**2, w <y, u> y and w <y, u>**2, with the path as another member
        squares = self._form_rate * (z.second + 2 * more * u * z.along + more**2 * z.square * u * u) + one * own * own
        crossed = self._form_rate * stretch * (z.along + more * z.square * u) + one * inner * own
        inner_square = self._form_rate * stretch**2 * z.square + one * inner**2
        by_v, by_d = _natural(u, squared, squares, crossed, inner_square, one)
        v += by_v / norm
        d += by_d * d
        self._along = None
        # the determinant becomes 1: a factor common to all parameters belongs to sigma
        logs = self._d.log() if d is self._d else np.log(d)
        d /= math.exp(float(logs.mean()) + math.log1p(_product(v, v)) / (2 * len(u)))

    def _tensors(self) -> dict[str, Tensor]:
        return {"centre": self._centre, "v": self._v, "d": self._d, "path": self._path, "step_path": self._step_path}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._along = None


def _quick(x: Tensor) -> Numbers:
    """Return numpy's view of a tensor on a CPU, where an operation on few numbers takes a fraction of torch's time."""
    return x.numpy() if x.device.type == "cpu" else x


def _product(a: Numbers, b: Numbers) -> float:
    """Return the inner product by a sum, as a BLAS may give other bits on other numbers of threads."""
    return float((a * b).sum())


def _natural(
    u: Numbers, squared: float, squares: Numbers, crossed: Numbers, inner_square: float, total: float
) -> tuple[Numbers, Numbers]:
    """Return natural gradients by v (without 1 / |v|) and by log D, from sums over weighted y: Akimoto et al. 2014, theorem 3.

    ``squared``: |v|**2; sums ``squares`` of y**2, ``crossed`` of <y, u> y, ``inner_square`` of <y, u>**2, ``total`` of weights.
    """
    gamma, uu = 1 + squared, u * u
    bound = math.sqrt(squared**2 + (2 * gamma - math.sqrt(gamma)) / float(uu.max())) / (2 + squared)
    alpha = min(1.0, bound)
    b = -(1 - alpha**2) * squared**2 / gamma + 2 * alpha**2
    inverse = 1 / (2 - (b + 2 * alpha**2) * uu)
    t = crossed - u * (inner_square + gamma * total) / 2
    s = squares - squared / gamma * u * crossed - total
    s = s - alpha / gamma * ((2 + squared) * t * u - squared * uu * _product(u, t))
    weighted = inverse * uu
    s = s * inverse - b / (1 + b * _product(uu, weighted)) * weighted * _product(weighted, s)
    t = t - alpha * ((2 + squared) * s * u - u * _product(uu, s))
    return t, s


def inverse_of_h(n: int) -> float:
    """Solve (1 + a**2) exp(a**2 / 2) / 0.24 - 10 = n for a, by Newton's method."""
    a = 1.0
    for _ in range(400):
        grown = math.exp(a * a / 2) / 0.24
        step = ((1 + a * a) * grown - 10 - n) / (a * grown * (3 + a * a))
        a = min(a - 0.5 * step, 15.0)  # the bound is above the solution of every n; a first step past it would make exp overflow
        if abs(step) < 1e-14:
            break
    return a
