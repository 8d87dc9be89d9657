"""Diversity of samples: what is derived against numpy and enumeration, which know no sampler; and the benchmark itself."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from support.configs import composed
from support.tables import rows_of

from neuro_cli.bench.config import BenchConfig
from neuro_cli.bench.diversity import LAWS, bench_diversity, birthday, collision, dependence

DRAWS = 200_000


def flipped(noise, rows: bool, columns: bool, random):
    """``noise`` (N, a, b) with random signs of its rows and of its columns."""
    count, a, b = noise.shape
    out = noise * random.choice([-1.0, 1.0], (count, a, 1)) if rows else noise
    return out * random.choice([-1.0, 1.0], (count, 1, b)) if columns else out


def placed(noise, rows: bool, columns: bool, random):
    """``noise`` (N, a, b) with its rows and its columns in random orders."""
    count, a, b = noise.shape
    if rows:
        noise = np.take_along_axis(noise, random.random((count, a)).argsort(1)[:, :, None], 1)
    return np.take_along_axis(noise, random.random((count, b)).argsort(1)[:, None], 2) if columns else noise


KINDS = {
    "sign_flip_outputs": partial(flipped, rows=False, columns=True),
    "sign_flip_inputs": partial(flipped, rows=True, columns=False),
    "sign_flip": partial(flipped, rows=True, columns=True),
    "permutation_outputs": partial(placed, rows=False, columns=True),
    "permutation_inputs": partial(placed, rows=True, columns=False),
    "permutation": partial(placed, rows=True, columns=True),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("a", "b"), [(6, 3), (3, 8)])
def test_the_derived_variance_is_that_of_numpy(name, a, b):
    """Columns are outputs, as in the paper; 2 + a for their signs, where the text says 2 + b / 4."""
    random = np.random.default_rng(1)
    noise, other = random.standard_normal((2, DRAWS, a, b))
    assert np.var((noise * other).sum((1, 2))) / (a * b) == pytest.approx(LAWS["iid"].variance(a, b), rel=0.03)
    dots = (KINDS[name](noise, random=random) * KINDS[name](noise, random=random)).sum((1, 2))
    found = np.var(dots) / (a * b)
    assert found == pytest.approx(LAWS[name].variance(a, b), rel=0.03)
    if name == "sign_flip_outputs":
        assert LAWS[name].variance(a, b) == 2 + a
        assert abs(found - (2 + b / 4)) > 0.2 * (2 + b / 4)


def test_birthday_is_exact():
    for b, n in ((1, 2), (2, 3), (3, 3), (2, 5)):
        vectors = list(product(range(2**b), repeat=n))
        assert birthday(2.0**b, n) == pytest.approx(sum(len(set(v)) < n for v in vectors) / len(vectors))
    assert 0 < birthday(2.0**256, 8192) < 1e-69  # the published layer of 256 columns and its batch


def test_probabilities_of_the_sampler_are_the_derived_ones():
    (row,) = collision(6, 4, 2000)
    assert row["measured"] == pytest.approx(row["derived"], abs=5 * (0.09 * 0.91 / 2000) ** 0.5)
    (pair,) = dependence(3, 4, 2, 800)
    assert pair["derived"] == pytest.approx(2 / 2**4)
    assert pair["measured"] == pytest.approx(pair["derived"], abs=5 * (0.125 * 0.875 / 800) ** 0.5)
    assert pair["measured"] <= pair["published"] == 2.0 ** (2 - 4)
    (more,) = dependence(3, 4, 5, 5)  # more samples than columns
    assert (more["measured"], more["published"]) == (1.0, 1.0)


def test_bench_diversity_writes_measured_derived_and_published(tmp_path):
    sizes = (
        "diversity.dependence=[[3,4,2]]",
        "diversity.span=[[4,3],[2,4],[3,3]]",
        "diversity.product=[[6,3]]",
        "diversity.draws=20",
    )
    bench_diversity(BenchConfig.of(composed(*sizes, "diversity.collision=[[3,2]]", verb="bench")), tmp_path)
    rows = rows_of(tmp_path / "diversity.csv")
    assert [row["measure"] for row in rows] == ["collision", "dependence", *["span"] * 21, *["product"] * 7]
    assert all(row["measured"] == row["derived"] for row in rows if row["measure"] == "span")
    assert [row["published"] for row in rows if row["measure"] == "product" and row["published"]] == ["2.75"]
