"""Variance and bias of each sampler's estimate of a gradient: the formulas of docs/explanation/variance.md, and draws.

    python scripts/variance.py               print the tables: formula, measured value, standard error
    python scripts/variance.py --draw        also draw docs/images/variance.svg

A fitness is ``f(eps) = <G, eps>``, with G drawn anew for each generation, so that every quantity is in units of E|G|^2. Legend:
D directions, a weight of ``outputs`` x ``inputs`` x ``taps`` values, M of them, T generations.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.shaping import PAIR_SHAPINGS, SHAPINGS
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.noise_table import NoiseTable
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "variance.svg"
DRAWS, DIRECTIONS = 100_000, 16
GREY = "#808080"


class Shape(NamedTuple):
    """Shape of a weight; a linear layer has one tap, a bias or a norm's scale one input and one tap."""

    outputs: int
    inputs: int
    taps: int = 1

    @property
    def size(self) -> int:
        return self.outputs * self.inputs * self.taps

    def module(self) -> nn.Module:
        """Return a module with this weight alone."""
        if self.taps > 1:
            side = math.isqrt(self.taps)
            return nn.Conv2d(self.inputs, self.outputs, side, bias=False)
        return nn.Linear(self.inputs, self.outputs, bias=False) if self.inputs > 1 else nn.LayerNorm(self.outputs, bias=False)


def iid(shape: Shape, directions: int) -> float:
    """Return the variance of the mean of D estimates ``<G, eps> eps`` with normal noise, over E|G|^2."""
    return (shape.size + 1) / directions


def low_rank(shape: Shape, directions: int, rank: int = 1) -> float:
    """Return the same for sums of ``rank`` outer products; a vector is drawn as a normal one."""
    if shape.inputs * shape.taps == 1:
        return iid(shape, directions)
    return iid(shape, directions) + 2 * (shape.outputs + shape.inputs * shape.taps + 1) / (rank * directions)


def with_floor(shape: Shape, directions: int, floor: float, per_noise: int | None = None) -> float:
    """Return the variance where ``per_noise`` directions share a matrix: ``floor`` is what no further direction removes."""
    return (shape.size + 1 - floor) / directions + floor * (per_noise or directions) / directions


def sign_flip_floor(shape: Shape, sides: str = "both") -> float:
    """Return the variance of the mean over signs, given the matrix: values with one sign are one direction, 1 + their number."""
    together = {"both": shape.taps, "outputs": shape.inputs * shape.taps, "inputs": shape.outputs * shape.taps}
    return 1 + (1 if shape.size == shape.outputs else together[sides])


def permutation_floor(shape: Shape, sides: str = "both") -> float:
    """Return the same for placed outputs, inputs or both, over all G; two placements agree at few places."""
    if shape.size == shape.outputs or sides == "outputs":
        return 2 * (shape.inputs * shape.taps + 1) / shape.outputs
    if sides == "inputs":
        return 2 * (shape.outputs * shape.taps + 1) / shape.inputs
    return 4 * (shape.taps + 1) / (shape.outputs * shape.inputs)


class Row(NamedTuple):
    """Sampler of a table, and the formula of its variance for a shape and a number of directions."""

    name: str
    sampler: Callable[[], Sampler]
    formula: Callable[[Shape, int], float]


ROWS = [
    Row("iid", Iid, iid),
    Row("low_rank, rank 1", lambda: LowRank(1), low_rank),
    Row("low_rank, rank 4", lambda: LowRank(4), lambda s, d: low_rank(s, d, 4)),
    Row("sign_flip", SignFlip, lambda s, d: with_floor(s, d, sign_flip_floor(s))),
    Row("sign_flip, outputs", lambda: SignFlip("outputs"), lambda s, d: with_floor(s, d, sign_flip_floor(s, "outputs"))),
    Row("sign_flip, inputs", lambda: SignFlip("inputs"), lambda s, d: with_floor(s, d, sign_flip_floor(s, "inputs"))),
    Row("sign_flip, 4 a matrix", lambda: SignFlip("both", 4), lambda s, d: with_floor(s, d, sign_flip_floor(s), 4)),
    Row("permutation, both", lambda: Permutation("both"), lambda s, d: with_floor(s, d, permutation_floor(s))),
    Row("permutation, outputs", lambda: Permutation("outputs"), lambda s, d: with_floor(s, d, permutation_floor(s, "outputs"))),
    Row("permutation, inputs", lambda: Permutation("inputs"), lambda s, d: with_floor(s, d, permutation_floor(s, "inputs"))),
    Row("noise_table", lambda: NoiseTable(1 << 21), iid),
]  # fmt: skip
SHAPES = {"linear 4 x 6": Shape(4, 6), "convolution 4 x 3 x 3 x 3": Shape(4, 3, 9), "bias of 10": Shape(10, 1)}


def noise(sampler: Sampler, shape: Shape, directions: int, generations: range) -> Iterator[Tensor]:
    """Yield the noise (D, M) of each generation, float64, as a forward pass over all directions gets it."""
    layout = ParameterLayout(shape.module(), False)
    population = directions * (2 if sampler.antithetic else 1)
    sampler.bind(Noise(5, layout.size, torch.device("cpu"), Threads(1)), population, layout)
    each = sampler.noise_period or directions
    for generation in generations:
        parts = []
        for first in range(0, directions, each):
            rows = MemberBatch((1.0,), min(each, directions - first), 1)
            drawn = sampler.perturbation(generation, first, rows, torch.float64)
            parts.append(torch.cat([drawn.values(place).flatten(1) for place in layout.places], 1))
        yield torch.cat(parts).double()


def variance(sampler: Sampler, shape: Shape, directions: int, generations: int) -> tuple[float, float]:
    """Return the mean over generations of ``|estimate - G|^2`` in units of E|G|^2, and its standard error."""
    drawn = torch.Generator().manual_seed(1)
    errors = np.empty(generations)
    for generation, eps in enumerate(noise(sampler, shape, directions, range(generations))):
        gradient = torch.randn(eps.shape[1], generator=drawn, dtype=torch.float64)
        estimate = (eps @ gradient) @ eps / directions
        errors[generation] = float((estimate - gradient).square().sum()) / shape.size
    return summary(errors)


def summary(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def pairs_over_independent(even_over_odd: float, size: int) -> float:
    """Return the variance of mirrored pairs over that of independent members, for P evaluations around a known mean.

    The fitness is ``<g, eps> + (|eps|^2 - M) h / 2``. Its odd part has variance |g|^2, its even part ``even_over_odd |g|^2``.
    """
    return 2 * (size + 1) / (size + 1 + even_over_odd * (size + 4))


def measured_pairs(
    even_over_odd: float, size: int, population: int, generations: int, sides: str = "same"
) -> tuple[float, float]:
    """Return the variance of an estimate over |g|^2 by draws, and its standard error.

    ``sides``: same examples for both of a pair | other examples for each, which adds an even part to each member alone | none,
    independent members.
    """
    sampler, drawn = Iid(antithetic=sides != "none"), np.random.default_rng(2)
    sampler.bind(Noise(5, size, torch.device("cpu"), Threads(1)), population, ParameterLayout(Shape(size, 1).module(), False))
    gradient, curvature = np.full(size, 1 / math.sqrt(size)), math.sqrt(2 * even_over_odd / size)
    errors = np.empty(generations)
    for generation in range(generations):
        eps = sampler.draw(generation, 0, sampler.directions, torch.float32).double().numpy()
        direction, sign = map(np.array, zip(*map(sampler.side, range(population)), strict=True))
        fitness = sign * (eps @ gradient)[direction]
        if sides == "other":  # what differs between examples has the size of the curvature's part
            fitness += math.sqrt(even_over_odd) * drawn.standard_normal(population)
        else:
            fitness += curvature / 2 * ((eps**2).sum(1) - size)[direction]
        estimate = sampler.combine(fitness[None] / population, (1,), generation, range(population), 0, size)[0].numpy()
        errors[generation] = ((estimate - gradient) ** 2).sum()
    return summary(errors)


def measured_remainder(offset: float, size: int, pairs: int, generations: int) -> tuple[float, float]:
    """Return the variance over |g|^2 of pairs and one member without its mate, for a linear fitness plus ``offset`` |g|."""
    drawn = np.random.default_rng(4)
    gradient, errors = np.full(size, 1 / math.sqrt(size)), np.empty(generations)
    for generation in range(generations):
        eps = drawn.standard_normal((pairs + 1, size))
        weights = 2 * eps @ gradient
        weights[-1] = weights[-1] / 2 + offset
        errors[generation] = ((weights @ eps / (2 * pairs + 1) - gradient) ** 2).sum()
    return summary(errors)


def remainder(offset: float, size: int, pairs: int) -> float:
    """Return the formula of :func:`measured_remainder`: the offset of one member is not subtracted by its mate."""
    return ((4 * pairs + 1) * (size + 1) + offset**2 * size) / (2 * pairs + 1) ** 2


def adam_steps(steps: int) -> float:
    """Return how many estimates with equal weights have the noise of ``steps`` steps of Adam's mean, which favours the first."""
    weights, kept = np.zeros(steps), 0.9
    for step in range(1, steps + 1):
        weights[:step] += (1 - kept) * kept ** np.arange(step - 1, -1, -1) / (1 - kept**step)
    return float(weights.sum() ** 2 / (weights**2).sum())


def adam_way(gradient: Tensor, directions: int, steps: int, rank: int | None) -> float:
    """Return the cosine between the gradient (outputs, inputs) and the way of Adam, whose second moment is the estimate's.

    ``rank`` of the noise, None: full. Noise of rank 1 is the larger in rows and columns that have the gradient: there
    ``E[f^2 eps^2] = |G|^2 + 2 (its row's + its column's part of |G|^2) + 4 G^2`` in place of ``|G|^2 + 2 G^2``.
    """
    squares = gradient.square()
    second = squares.sum() + 2 * squares
    if rank is not None:
        second = second + 2 / rank * (squares.sum(0, keepdim=True) + squares.sum(1, keepdim=True) + squares)
    moved = gradient / (squares * (1 - 1 / directions) + second / directions).sqrt()  # mean of a step; its variance is the rest
    size = moved.square().sum() + (1 - moved.square()).sum() / adam_steps(steps)
    return float((moved * gradient).sum() / (gradient.norm() * size.sqrt()))


def gradients(shape: Shape, networks: int, rows: int) -> Iterator[Tensor]:
    """Yield a gradient (outputs, inputs) a network, not zero in ``rows`` of its rows."""
    drawn = torch.Generator().manual_seed(6)
    for _ in range(networks):
        gradient = torch.randn(shape.outputs, shape.inputs, generator=drawn, dtype=torch.float64)
        gradient[rows:] = 0
        yield gradient


def adam_cosine(
    sampler: Sampler, shape: Shape, rows: int, directions: int, steps: int, networks: int, kind: str = "Adam"
) -> tuple[float, float]:
    """Return the cosine between a constant gradient and the way of ``steps`` estimates by torch's optimizer, and its error."""
    cosines = np.empty(networks)
    for network, gradient in enumerate(gradients(shape, networks, rows)):
        centre = torch.zeros(shape.size, dtype=torch.float64, requires_grad=True)
        optimizer = getattr(torch.optim, kind)([centre], lr=0.01, maximize=True)
        for eps in noise(sampler, shape, directions, range(network * steps, (network + 1) * steps)):
            centre.grad = (eps @ gradient.flatten()) @ eps / directions
            optimizer.step()
        cosines[network] = float(torch.cosine_similarity(centre.detach(), gradient.flatten(), 0))
    return summary(cosines)


def turned(shaping: str, population: int, mirrored: bool, curvature: float, draws: int = DRAWS) -> tuple[float, float]:
    """Return the degrees from the gradient (1, 1) of ``e1 + e2 + curvature e1^2 / 2`` to the mean estimate, and their error."""
    drawn, shape = np.random.default_rng(3), (SHAPINGS | PAIR_SHAPINGS)[shaping]
    estimates = np.empty((max(2, draws // population), 2))
    for row in estimates:
        eps = drawn.standard_normal((population // 2 if mirrored else population, 2))
        if mirrored:
            eps = np.stack([eps, -eps], 1).reshape(-1, 2)
        row[:] = shape(eps.sum(1) + curvature / 2 * eps[:, 0] ** 2) @ eps / population
    mean, error = estimates.mean(0), np.cov(estimates.T) / len(estimates)
    size = float(mean @ mean)
    normal = np.array([-mean[1], mean[0]]) / size  # of the angle, by the two coordinates
    return math.degrees(math.atan2(mean[1], mean[0])) - 45, math.degrees(math.sqrt(normal @ error @ normal))


def print_rows(title: str, rows: Iterator[tuple[str, float, tuple[float, float]]]) -> None:
    """Print lines of a table: name, formula, measured value, standard error and their distance in standard errors."""
    print(f"\n{title}\n")
    for name, formula, (mean, error) in rows:
        print(f"  {name:42} {formula:9.4f} {mean:9.4f} +- {error:.4f}   {(mean - formula) / error:+.1f}")


def tables(draws: int) -> None:
    """Print all tables."""
    generations = draws // DIRECTIONS
    for name, shape in SHAPES.items():
        rows = ((r.name, r.formula(shape, DIRECTIONS), variance(r.sampler(), shape, DIRECTIONS, generations)) for r in ROWS)
        print_rows(f"{name}, {DIRECTIONS} directions: variance over |G|^2", rows)
    size, population = 20, 16
    unit = (size + 1) / population
    ratios = (
        (f"even over odd {r}, {sides}", unit * factor, measured_pairs(r, size, population, draws // population, sides))
        for r in (0.0, 0.5, 1.0, 4.0)
        for sides, factor in (
            ("none", 1 + r * (size + 4) / (size + 1)),
            ("same", 2.0),
            ("other", 2.0 + r * size / (size + 1)),
        )
    )
    print_rows("independent members, and pairs on the same and on other examples", ratios)
    offsets = (
        (f"64 pairs and one more, offset {c:g} |g|", remainder(c, 100, 64), measured_remainder(c, 100, 64, 1000))
        for c in (0.0, 10.0)
    )
    print_rows("an odd remainder, 100 parameters", offsets)
    steps, each = 400, 4
    networks = max(2, draws // (steps * each))
    for some in (ADAM.outputs, 1):
        ways = (
            (f"{name}, gradient in {some} rows", mean_of(ADAM, networks, some, each, steps, rank),
             adam_cosine(sampler(), ADAM, some, each, steps, networks))
            for name, sampler, rank in ADAMS
        )  # fmt: skip
        print_rows(f"cosine of {steps} steps of Adam with the gradient, linear 32 x 32, {each} directions", ways)
        plain = (
            (f"{name}, gradient in {some} rows", (1 + formula(ADAM, each) / steps) ** -0.5,
             adam_cosine(sampler(), ADAM, some, each, steps, networks, "SGD"))
            for name, sampler, formula in (("iid", Iid, iid), ("low_rank, rank 1", lambda: LowRank(1), low_rank))
        )  # fmt: skip
        print_rows("the same of SGD", plain)
    print("\nangle of the mean estimate from the gradient, degrees, curvature 2\n")
    for shaping, mirrored in TURNS:
        angles = [turned(shaping, population, mirrored, 2.0, draws) for population in POPULATIONS]
        print(f"  {shaping:14} {'pairs' if mirrored else 'independent':12}", *(f"{a:6.1f} +- {e:.1f}" for a, e in angles))


ADAM = Shape(32, 32)
ADAMS: list[tuple[str, Callable[[], Sampler], int | None]] = [
    ("iid", Iid, None),
    ("low_rank, rank 1", lambda: LowRank(1), 1),
    ("low_rank, rank 4", lambda: LowRank(4), 4),
]


def mean_of(shape: Shape, networks: int, rows: int, directions: int, steps: int, rank: int | None) -> float:
    """Return the mean of :func:`adam_way` over the gradients of :func:`adam_cosine`."""
    return float(np.mean([adam_way(gradient, directions, steps, rank) for gradient in gradients(shape, networks, rows)]))


TURNS = [("centred_rank", False), ("centred_rank", True), ("nes_utilities", True), ("z_score", True), ("centred", True),
         ("pair_z_score", True), ("pair_rank", True)]  # fmt: skip
POPULATIONS = (2, 4, 8, 16, 64)


def draw(path: Path) -> None:
    """Write the figure: variance over the directions of a convolution, pairs over independent members, angles of shapings."""
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    FigureCanvasSVG(figure)
    left, middle, right = figure.subplots(1, 3)
    _draw_floors(left)
    _draw_pairs(middle)
    _draw_angles(right)
    for axes in (left, middle, right):
        axes.grid(color=GREY, alpha=0.25)
        axes.tick_params(colors=GREY)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(GREY)
        axes.xaxis.label.set_color(GREY)
        axes.yaxis.label.set_color(GREY)
        axes.legend(frameon=False, labelcolor=GREY, fontsize=8)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None, "Creator": None}, transparent=True)


def _draw_floors(axes: matplotlib.axes.Axes) -> None:
    shape, counts = Shape(16, 16, 9), 2 ** np.arange(4, 13)
    chosen = {"iid": "#1f77b4", "low_rank, rank 1": "#17a2b8", "permutation, both": "#7f7f7f", "sign_flip": "#d9730d"}
    for row in ROWS:
        if row.name not in chosen:
            continue
        axes.plot(counts, [row.formula(shape, int(count)) for count in counts], color=chosen[row.name], label=row.name)
        dots = [variance(row.sampler(), shape, int(count), max(4, 8192 // int(count)))[0] for count in counts]
        axes.plot(counts, dots, ".", color=chosen[row.name])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("directions")
    axes.set_ylabel("variance over |G|², 16 x 16 x 3 x 3")


def _draw_pairs(axes: matplotlib.axes.Axes) -> None:
    size, population, ratios = 20, 16, np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])
    fine = np.linspace(0, 4, 50)
    axes.plot(fine, [pairs_over_independent(ratio, size) for ratio in fine], color="#1f77b4", label="the same examples")
    alone = [measured_pairs(ratio, size, population, 4000, "none")[0] for ratio in ratios]
    same = [measured_pairs(ratio, size, population, 4000)[0] for ratio in ratios]
    axes.plot(ratios, np.divide(same, alone), ".", color="#1f77b4")
    other = [measured_pairs(ratio, size, population, 4000, "other")[0] for ratio in ratios]
    axes.plot(ratios, np.divide(other, alone), ".-", color="#d9730d", label="other examples for each side")
    axes.axhline(1, color=GREY, linewidth=1)
    axes.set_ylim(0, None)
    axes.set_xlabel("variance of the fitness: even part over odd part")
    axes.set_ylabel("variance of pairs over independent")


def _draw_angles(axes: matplotlib.axes.Axes) -> None:
    colours = ("#1f77b4", "#17a2b8", "#7f7f7f", "#d9730d")
    for (shaping, mirrored), colour in zip([*TURNS[:2], TURNS[3], TURNS[6]], colours, strict=True):
        label = f"{shaping}, {'pairs' if mirrored else 'independent'}"
        axes.plot(POPULATIONS, [turned(shaping, p, mirrored, 2.0)[0] for p in POPULATIONS], ".-", color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("population")
    axes.set_ylabel("degrees from the gradient")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw docs/images/variance.svg")
    parser.add_argument("--draws", type=int, default=DRAWS, help="directions drawn for each row")
    typed = parser.parse_args()
    torch.set_num_threads(1)
    tables(typed.draws)
    if typed.draw:
        draw(FIGURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
