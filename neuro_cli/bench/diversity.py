"""``neuro bench diversity``: how far samples that share their noise differ, measured on the samplers and derived.

Appendix A of "An efficient GPU implementation of Natural Evolution Strategies for deep learning". A layer has a x b weights there
and E_i = E B_i flips the signs of its b columns (``sides=outputs`` here); a is the length of a column. Held against each
other: the probability that two of n samples are equal, that n samples are linearly dependent, the dimension of the space
that samples span, and the variance of the dot product of two samples over that of two independent ones.

The last one, derived: with flips of columns the dot product is a sum over b columns of a sign times ``|e_j|**2``, a chi-squared
number q of a degrees of freedom. Signs are independent, so its variance is ``b E[q**2] = b (a**2 + 2 a)``; that of IID samples is
``a b``: a factor of 2 + a. The text says 2 + b / 4 and counts a numbers of b degrees of freedom. By the law of total variance
such a number times a sign s has ``Var(q) + Var(s) E[q]**2 = 2 b + Var(s) b**2``, which is ``b (2 + b / 4)`` if ``Var(s)`` is
taken as 1/4: that of a coin of 0 and 1, where a sign's is 1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.table import show, write
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import random_signs
from neuro_cli.runner.config import Check, bounded, key
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip

Row = dict[str, Any]
COLUMN_SIGNS = "sign_flip_outputs"


@dataclass(frozen=True)
class Law:
    """Sampler and what follows for it, for a inputs and b outputs.

    ``variance``: of the dot product of two samples over a b, that of two independent ones; ``span``: dimension of the space of
    all samples with one E.
    """

    make: Callable[[], Sampler]
    variance: Callable[[int, int], float]
    span: Callable[[int, int], int]


def _placed(count: int, length: int) -> float:
    """Return the variance over a b where ``count`` vectors of ``length`` change places: on average one of them keeps its own."""
    return 1 + (length + 2) / count


def _span_of_places(count: int, length: int) -> int:
    """Return the dimension that orders of ``count`` vectors span: their mean, and all maps among the differences from it."""
    return (count - 1) * min(count - 1, length) + 1


LAWS = {
    "iid": Law(lambda: Iid(antithetic=False), lambda a, b: 1.0, lambda a, b: a * b),
    COLUMN_SIGNS: Law(lambda: SignFlip("outputs", antithetic=False), lambda a, b: 2.0 + a, lambda a, b: b),
    "sign_flip_inputs": Law(lambda: SignFlip("inputs", antithetic=False), lambda a, b: 2.0 + b, lambda a, b: a),
    "sign_flip": Law(lambda: SignFlip("both", antithetic=False), lambda a, b: 3.0, lambda a, b: a * b),
    "permutation_outputs": Law(
        lambda: Permutation("outputs", antithetic=False), lambda a, b: _placed(b, a), lambda a, b: _span_of_places(b, a)
    ),
    "permutation_inputs": Law(
        lambda: Permutation("inputs", antithetic=False), lambda a, b: _placed(a, b), lambda a, b: _span_of_places(a, b)
    ),
    "permutation": Law(lambda: Permutation("both", antithetic=False), lambda a, b: 1 + 7 / (a * b), lambda a, b: a * b),
}


def _sizes(count: int) -> Check:
    """Return the check of a list of lists of ``count`` sizes."""

    def check(key: str, sizes: Any) -> list[list[int]]:
        if not isinstance(sizes, list) or any(not isinstance(size, list) or len(size) != count for size in sizes):
            raise ConfigError(key, sizes, f"must be a list of lists of {count} numbers")
        return [[integer(key, value, 2, 4096) for value in size] for size in sizes]

    return check


@dataclass(frozen=True)
class Diversity:
    draws: int = key(bounded(2))
    collision: list[list[int]] = key(_sizes(2))
    dependence: list[list[int]] = key(_sizes(3))
    span: list[list[int]] = key(_sizes(2))
    product: list[list[int]] = key(_sizes(2))


def bench_diversity(config: BenchConfig, run: Path) -> None:
    """Measure the diversity of samplers, print a table and write diversity.csv. Raises UserError."""
    own = config.own(Diversity, "diversity")
    rows = [row for b, n in own.collision for row in collision(b, n, own.draws)]
    rows += [row for a, b, n in own.dependence for row in dependence(a, b, n, own.draws)]
    rows += [row for a, b in own.span for row in spans(a, b)]
    rows += [row for a, b in own.product for row in products(a, b, own.draws)]
    if not rows:
        raise ConfigError("diversity", "{}", "there is nothing to measure in it")
    write(run / "diversity.csv", rows, 1)
    head = ("measure", "sampler", "a", "b", "samples", "measured", "derived", "published")
    lines = [[_text(row[name]) for name in ("measure", "sampler", "inputs", "outputs", *head[4:])] for row in rows]
    show(f"diversity of samples, {own.draws:,} draws", head, lines, 1, run / "diversity.csv")


def collision(b: int, n: int, draws: int) -> Iterator[Row]:
    """Yield the share of draws of ``n`` samples with two equal ones among 2^b flips of ``b`` columns: the birthday problem."""
    sampler = _bound(COLUMN_SIGNS, 2, b, n)
    assert isinstance(sampler, SignFlip)
    signs = (random_signs(sampler.factors(generation, range(n)), b, torch.int8) for generation in range(draws))
    equal = sum(len(flips.unique(dim=0)) < n for flips in signs)
    yield _row("collision", COLUMN_SIGNS, 2, b, n, equal / draws, birthday(2.0**b, n))


def birthday(places: float, n: int) -> float:
    """Return the probability that two of ``n`` independent choices among ``places`` are equal."""
    if n > places:
        return 1.0
    return -math.expm1(sum(math.log1p(-i / places) for i in range(n)))


def dependence(a: int, b: int, n: int, draws: int) -> Iterator[Row]:
    """Yield the share of draws of ``n`` linearly dependent samples, and the text's bound 2^(n - b).

    Derived for two and three samples: these depend where two are equal up to their sign.
    """
    samples = _bound_samples(COLUMN_SIGNS, a, b, n)
    ranks = [_rank(samples, generation) for generation in range(draws)]
    derived = birthday(2.0 ** (b - 1), n) if n <= 3 else ""
    yield _row(
        "dependence", COLUMN_SIGNS, a, b, n, float(np.mean([rank < n for rank in ranks])), derived, min(1.0, 2.0 ** (n - b))
    )


def spans(a: int, b: int) -> Iterator[Row]:
    """Yield the rank of more samples than weights, by sampler."""
    n = 3 * a * b + 8  # flips are few, and the first of them may miss a dimension
    for name, law in LAWS.items():
        yield _row("span", name, a, b, n, _rank(_bound_samples(name, a, b, n), 0), law.span(a, b))


def products(a: int, b: int, draws: int) -> Iterator[Row]:
    """Yield the variance of the dot product of two samples over a b, by sampler."""
    for name, law in LAWS.items():
        samples = _bound_samples(name, a, b, 2)
        dots = [float(torch.dot(*samples(generation))) for generation in range(draws)]
        published = 2 + b / 4 if name == COLUMN_SIGNS else ""
        yield _row("product", name, a, b, 2, float(np.var(dots)) / (a * b), law.variance(a, b), published)


def _bound(name: str, a: int, b: int, n: int) -> Sampler:
    layout = ParameterLayout(nn.Linear(a, b, bias=False))
    sampler = LAWS[name].make()
    sampler.bind(Noise(1, layout.size, torch.device("cpu"), Threads(1)), n, layout)
    return sampler


def _bound_samples(name: str, a: int, b: int, n: int) -> Callable[[int], torch.Tensor]:
    """Return the function from a generation to its ``n`` samples (n, a b) float64."""
    sampler = _bound(name, a, b, n)
    return lambda generation: torch.stack([sampler.explicit(generation, sample) for sample in range(n)]).double()


def _rank(samples: Callable[[int], torch.Tensor], generation: int) -> int:
    return int(torch.linalg.matrix_rank(samples(generation)))


def _row(
    measure: str, sampler: str, inputs: int, outputs: int, samples: int, measured: float, derived: Any, published: Any = ""
) -> Row:
    sizes = {"inputs": inputs, "outputs": outputs, "samples": samples}
    return {"measure": measure, "sampler": sampler, **sizes, "measured": measured, "derived": derived, "published": published}


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
