"""The addressed noise: its law, its addresses, and one definition for every way of making it."""

import sys

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.core import noise as addressed
from neuro_cli.core import philox
from neuro_cli.core.kernels import numba_noise as kernels
from neuro_cli.core.kernels import vectors
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import NEAR, NOISE_STREAM, PAGE, Noise, Tier, random_permutation, random_words, words_between
from neuro_cli.core.quantile import BASE, MANTISSA_BITS, SLOPE
from neuro_cli.core.seeds import key_of

SIZE = 5000


@pytest.fixture(autouse=True, scope="module", params=["compiled", "definition"])
def tier(request):
    """Every property holds for the loops and for the definition that stands in for them as long as numbers are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressed, "tier", Tier(few=0) if request.param == "compiled" else Tier(10**12, 10**12))
        yield request.param


# statistics are of the bits, which the next tests hold to be the same either way
once = pytest.mark.parametrize("tier", ["compiled"], indirect=True, scope="module")


def test_few_numbers_load_no_compiled_loops_and_many_do_with_fewer_where_numba_is_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    tier = Tier(few=100_000, large=50_000)
    assert [tier.compiled(count) for count in (40_000, 50_000, 40_000, 1)] == [False, False, True, True]
    assert [Tier(few=10**6, large=50).compiled(count) for count in (50, 51)] == [False, True]
    assert [Tier(few=10 * Tier.CALL).compiled(3, calls) for calls in (10, 11)] == [False, True]  # small ones cost as much
    monkeypatch.setitem(sys.modules, "numba", None)
    tier = Tier(few=4 * Tier.LOADED * Tier.CALL)
    assert [tier.compiled(3, calls) for calls in (4, 1)] == [False, True]


def noise(seed: int = 1, size: int = SIZE, threads: int = 1) -> Noise:
    return Noise(seed, size, torch.device("cpu"), Threads(threads))


def by_definition(seed: int, generation: int, directions: list[int], start: int, stop: int) -> torch.Tensor:
    words = philox.words(key_of(seed), generation, torch.tensor(directions), NOISE_STREAM, start, stop)
    return philox.normals(words)


# Known answers of Random123's kat_vectors for philox4x32-10
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@once
@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(counter, key, answer):
    words = philox.philox(tuple(torch.tensor(word) for word in counter), key)
    assert tuple(int(word) for word in words) == answer


@given(
    seed=st.integers(0, 2**64 - 1),
    generation=st.integers(0, 2**32 - 1),
    direction=st.integers(0, 2**32 - 1),
    start=st.integers(0, SIZE - 1),
    length=st.integers(1, 2100),
)
@settings(max_examples=20, deadline=None)
def test_compiled_kernels_give_the_bits_of_the_definition(seed, generation, direction, start, length):
    stop = min(start + length, SIZE)
    made = noise(seed).draw(generation, [direction, 0], start, stop)
    assert torch.equal(made, by_definition(seed, generation, [direction, 0], start, stop))


@once
@pytest.mark.parametrize("way", ["gathers", "loads"])
def test_each_way_of_the_law_gives_the_bits_of_the_definition(way, monkeypatch):
    if way == "gathers" and not vectors.wide():
        pytest.skip("no AVX-512 here")
    edges = [0, 1, 2, 2**30, 2**31 - 1, *(2**31 - 2**k for k in range(8)), *(2**k + 1 for k in range(31))]
    tails = np.random.default_rng(0).integers(0, 2**31, philox.TILE - 2 * len(edges), np.uint32)
    words = np.concatenate([np.array(edges, np.uint32), np.array(edges, np.uint32) | np.uint32(2**31), tails])
    made = np.empty(philox.TILE, np.float32)
    monkeypatch.setattr(kernels, "_normals", getattr(vectors, f"normals_by_{way}"))
    numba.njit(kernels._normal_tile.py_func)(words, made, philox.TILE)
    assert made.tobytes() == philox.normals(torch.from_numpy(words.astype(np.int64))).numpy().tobytes()


def test_first_numbers_are_pinned():
    """Recorded runs depend on these bits: they may never change."""
    made = noise(seed=1).draw(0, [0], 0, 4)[0].numpy()
    expected = by_definition(1, 0, [0], 0, 4)[0].numpy()
    assert made.tobytes() == expected.tobytes()
    assert made.tolist() == PINNED


PINNED = [-0.2786441445350647, -0.9463006854057312, 0.6826929450035095, -0.650686502456665]


@once
def test_quantile_function_is_met_within_2e_5():
    from scipy.special import ndtri

    random = np.random.default_rng(0)
    tail = np.concatenate([random.integers(1, 2**31, 500_000), 2 ** np.arange(31), [2**31 - 1]]).astype(np.uint32)
    made = philox.normals(torch.from_numpy(tail.astype(np.int64))).double().numpy()
    assert np.abs(made + ndtri(tail / 2.0**32)).max() < 2e-5
    assert len(BASE) == len(SLOPE) == 31 * 2**MANTISSA_BITS + 1


@once
def test_slope_products_are_exact_so_fused_multiply_add_changes_nothing():
    steps = np.array([1, 2047, 4095], np.float32)
    for step in steps:
        assert np.array_equal((step * SLOPE).astype(np.float64), step.astype(np.float64) * SLOPE.astype(np.float64))


@once
def test_law_is_standard_normal():
    """Mean, variance, skewness, kurtosis within 4 standard errors, and Kolmogorov-Smirnov."""
    from scipy import stats

    sample = noise(7, 2**20).draw(3, [0, 1, 2, 3]).double().numpy().ravel()
    count = sample.size
    assert abs(sample.mean()) < 4 / np.sqrt(count)
    assert abs(sample.var() - 1) < 4 * np.sqrt(2 / count)
    assert abs(stats.skew(sample)) < 4 * np.sqrt(6 / count)
    assert abs(stats.kurtosis(sample)) < 4 * np.sqrt(24 / count)
    assert stats.kstest(sample, "norm").pvalue > 1e-3


@once
@pytest.mark.parametrize("lag", [1, 2, 255, 256, 1024])
def test_columns_are_uncorrelated(lag):
    sample = noise(3, 2**20).draw(0, [5])[0].double().numpy()
    for a, b in ((sample[:-lag], sample[lag:]), (sample[:-lag] ** 2, sample[lag:] ** 2)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(len(a))


@once
@pytest.mark.parametrize("other", [(2, 3, 4), (1, 4, 4), (1, 3, 5), (1 + 2**32, 3, 4)])
def test_seed_generation_and_direction_give_independent_numbers(other):
    first = noise(1, 2**20).draw(3, [4])[0].double().numpy()
    seed, generation, direction = other
    second = noise(seed, 2**20).draw(generation, [direction])[0].double().numpy()
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(first.size)
    assert (first == second).mean() < 1e-4


@given(cut=st.integers(1, SIZE - 1), directions=st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True))
@settings(max_examples=20, deadline=None)
def test_tiles_equal_the_same_cells_of_the_whole(cut, directions):
    whole = noise().draw(9, range(100))
    tiles = [noise().draw(9, directions, 0, cut), noise().draw(9, directions, cut, SIZE)]
    assert torch.equal(torch.cat(tiles, dim=1), whole[directions])


@pytest.mark.parametrize("per_column", [False, True])
def test_perturb_is_centre_plus_and_minus_scaled_noise(per_column):
    made, base = noise(), torch.linspace(-1, 1, SIZE)
    scale = torch.linspace(0.1, 2, SIZE) if per_column else torch.tensor([0.02])
    plus, minus = torch.empty(SIZE), torch.empty(SIZE)
    made.perturb(base, scale, 4, 6, plus, minus)
    step = scale * made.draw(4, [6])[0]
    assert torch.equal(plus, base + step)
    assert torch.equal(minus, base - step)
    only = torch.empty(SIZE)
    made.perturb(base, scale, 4, 6, None, only)
    assert torch.equal(only, minus)


@given(
    directions=st.lists(st.integers(0, 40), min_size=1, max_size=8, unique=True),
    rows=st.integers(1, 3),
    start=st.integers(0, SIZE - 2),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=20, deadline=None)
def test_combine_is_the_weighted_sum_of_both_moments(directions, rows, start, seed):
    weights = np.random.default_rng(seed).standard_normal((rows, len(directions)))
    weights[0, 0] = 0.0
    moments = [1 + row % 2 for row in range(rows)]
    made = noise(seed)
    eps = made.draw(2, directions, start).double().numpy()
    expected = np.stack([w @ (eps if moment == 1 else eps**2 - 1) for w, moment in zip(weights, moments, strict=True)])
    sums = made.combine(weights, moments, 2, directions, start)
    np.testing.assert_allclose(sums.numpy(), expected, rtol=2e-6, atol=1e-6)
    by_torch = made._combine_by_torch(addressed._Sums(weights, moments, 2, directions, start, SIZE))
    assert torch.equal(by_torch, sums)


HELD_PARTS = {"whole": [(0, 9)], "parts": [(0, 4), (4, 9)], "more": [(0, 4), (3, 12)]}


@pytest.mark.parametrize("parts", HELD_PARTS.values(), ids=HELD_PARTS)
@pytest.mark.parametrize(("start", "stop"), [(0, SIZE), (1, SIZE), (17, 4099), (SIZE - 1, SIZE)])
def test_sums_of_held_rows_have_the_bits_of_sums_of_drawn_ones(monkeypatch, tier, parts, start, stop):
    weights = np.random.default_rng(3).normal(size=(2, 9))
    weights[:, 2] = 0.0
    wanted, made = noise().combine(weights, [1, 2], 4, range(9), start, stop), noise(threads=2)
    for low, high in parts:
        made.hold(4, low, made.draw(4, range(low, high)))
    if tier == "compiled":
        monkeypatch.setattr(kernels, "combine", None)  # no second draw
    assert torch.equal(made.combine(weights, [1, 2], 4, range(9), start, stop), wanted)


def test_rows_are_not_read_after_a_write_to_them_or_in_another_generation_and_missing_ones_are_drawn():
    weights = np.ones((1, 3))
    wanted = noise().combine(weights, [1], 2, range(3))
    written, older, some = noise(), noise(), noise()
    rows = written.draw(2, range(3))
    written.hold(2, 0, rows)
    rows[1, 7] = 100.0
    older.hold(1, 0, older.draw(1, range(3)))
    some.hold(2, 0, some.draw(2, range(2)))
    for each in (written, older, some):
        assert torch.equal(each.combine(weights, [1], 2, range(3)), wanted)


def test_held_rows_are_few_and_are_freed_by_the_sums_of_all_columns(tier, monkeypatch):
    made = noise()
    monkeypatch.setattr(addressed, "HELD", 3 * SIZE)
    for first in (0, 1, 2, 3, 1):  # a part scored again takes its own place
        made.hold(5, first, made.draw(5, [first]))
    assert sorted(made._held) == [(5, 0), (5, 1), (5, 2)]
    made.hold(6, 0, made.draw(6, range(3)))
    assert list(made._held) == [(6, 0)]
    made.combine(np.ones((1, 3)), [1], 6, range(3), 0, SIZE - 1)
    assert made._held
    made.combine(np.ones((1, 3)), [1], 6, range(3))
    assert tier == "definition" or not made._held


@pytest.mark.parametrize("threads", [2, 3])
def test_bits_of_combine_do_not_depend_on_threads_or_cuts(threads):
    weights = np.random.default_rng(0).standard_normal((2, 5))
    whole = noise().combine(weights, [1, 2], 0, range(5))
    assert torch.equal(noise(threads=threads).combine(weights, [1, 2], 0, range(5)), whole)
    pieces = [noise().combine(weights, [1, 2], 0, range(5), a, b) for a, b in ((0, 1), (1, 2049), (2049, SIZE))]
    assert torch.equal(torch.cat(pieces, dim=1), whole)


def test_permutations_are_addressed_and_uniform():
    from scipy import stats

    first = random_permutation(1, 0, 1000)
    assert torch.equal(first.sort().values, torch.arange(1000))
    assert torch.equal(first, random_permutation(1, 0, 1000))
    for other in (random_permutation(1, 1, 1000), random_permutation(2, 0, 1000)):
        assert (first == other).sum() < 10
    # where element 0 of 5 lands: uniform over 2,000 epochs
    places = np.bincount([int(random_permutation(3, epoch, 5)[0]) for epoch in range(2000)], minlength=5)
    assert stats.chisquare(places).pvalue > 1e-3


def test_no_global_generator_is_used():
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    noise().draw(0, [0])
    random_permutation(1, 2, 50)
    random_words(1, 2, 3, 4, 10)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


@pytest.mark.parametrize(("start", "stop"), [(0, 10), (3, 259), (250, 300), (1020, 1030)])
def test_few_columns_by_numpy_have_the_bits_of_the_definition(start, stop):
    directions = [3, 4, 2**31]
    words = philox.words(key_of(7), 5, torch.tensor(directions), NOISE_STREAM, start, stop)
    few = philox.few_words(key_of(7), 5, np.array(directions), NOISE_STREAM, start, stop)
    assert np.array_equal(few.astype(np.int64), words.numpy())
    assert philox.few_normals(few).tobytes() == philox.normals(words).numpy().tobytes()


def test_a_row_of_words_is_made_from_any_place():
    near = random_words(3, 5, 0, 7, 40)
    np.testing.assert_array_equal(words_between(3, 5, 7, 11, 40), near[11:])
    edge = words_between(3, 5, 7, NEAR - 9, NEAR + 5)  # beyond which no word before is made
    np.testing.assert_array_equal(edge[:9], random_words(3, 5, 0, 7, NEAR)[-9:])
    np.testing.assert_array_equal(edge, np.concatenate([words_between(3, 5, 7, NEAR + n, NEAR + n + 1) for n in range(-9, 5)]))
    page = words_between(3, 5, 7, PAGE - 2, PAGE + 3)
    np.testing.assert_array_equal(page[2:], random_words(3, 5, 1, 7, 3))
    assert words_between(3, 5, 7, 2 * PAGE, 2 * PAGE).size == 0
