"""How much noise one rank makes in a generation when ranks are added and each scores as many members as before.

The bottleneck of DarwiNN (section 5): to make the same noise on every rank takes the longer the more ranks there are.
"""

from itertools import product

import numpy as np
import pytest
from support.configs import composed

from neuro_cli.core import noise as addressed
from neuro_cli.core import philox
from neuro_cli.core.kernels import numba_noise as noise_kernels
from neuro_cli.fabric.base import Arrived, Exchange, SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.scoring.chunk_size import MOST, NUMBERS, shared_directions

MEMBERS = 2  # a rank
RANKS = (1, 7, 96)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(addressed, "tier", addressed.Tier(few=0))


class RankOf(SingleProcess):
    """Rank ``rank`` of ``size`` without the others: what they would send is made up from its own."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__()
        self.rank, self.size = rank, size

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        assert len(own) == counts[self.rank]
        return np.resize(own, sum(counts)) if len(own) else np.zeros(sum(counts), own.dtype)

    def start_all_gather(self, own: np.ndarray, counts: list[int]) -> Exchange:
        return Arrived(self.all_gather(own, counts))

    def all_to_all(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        return [blocks[self.rank]] * self.size


class Counter:
    """Counts the numbers that the kernels are asked for, then asks the kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.numbers = {"perturb": 0, "combine": 0, "draw": 0}
        self._kernels = {name: getattr(noise_kernels, name) for name in self.numbers}
        for name in self.numbers:
            monkeypatch.setattr(noise_kernels, name, getattr(self, name))

    def perturb(self, key0, key1, generation, stream, direction, base, *rest) -> None:
        self.numbers["perturb"] += base.size
        self._kernels["perturb"](key0, key1, generation, stream, direction, base, *rest)

    def combine(self, key0, key1, generation, stream, directions, weights, moments, start, out) -> None:
        self.numbers["combine"] += int(weights.any(axis=0).sum()) * out.shape[1]
        self._kernels["combine"](key0, key1, generation, stream, directions, weights, moments, start, out)

    def draw(self, key0, key1, generation, stream, directions, start, out) -> None:
        self.numbers["draw"] += out.size
        self._kernels["draw"](key0, key1, generation, stream, directions, start, out)


def numbers_a_rank(monkeypatch: pytest.MonkeyPatch, rank: int, ranks: int, *overrides: str, examples: int = 16) -> dict[str, int]:
    """Numbers of noise that one rank makes in one generation, by kernel."""
    setting = (f"population={MEMBERS * ranks}", f"batch_size={examples}", "threads=1", "model=MNIST_10K", *overrides)
    parts = build(Options(composed(*setting)), RankOf(rank, ranks))
    parts.distribution.step(0)  # scores two members once more
    with monkeypatch.context() as patch:
        counter = Counter(patch)
        parts.distribution.step(1)
    return counter.numbers


@pytest.mark.parametrize("sampler", [pytest.param("iid", marks=pytest.mark.slow), "antithetic"])
@pytest.mark.parametrize(
    "method", [["chromosome_updates"], ["chromosome_updates", "distribution.overlap=true"], ["semi_updates"]], ids=" ".join
)
def test_it_does_not_grow_with_the_ranks(method, sampler, monkeypatch):
    columns = build(Options(composed("model=MNIST_10K", "batch_size=2")), SingleProcess()).layout.size
    directions = MEMBERS if sampler == "iid" else MEMBERS // 2
    monkeypatch.setattr("neuro_cli.distribution.chromosome_updates.PIECE", 8192)
    for ranks in RANKS:
        for rank in {0, ranks - 1}:
            overrides = (f"distribution={method[0]}", *method[1:], f"sampler={sampler}")
            numbers = numbers_a_rank(monkeypatch, rank, ranks, *overrides)
            assert numbers["perturb"] == directions * columns
            assert numbers["draw"] == 0
            # a slice has at most one column more than its even share; a direction whose weights are zero is left out
            even = directions * columns if method[0] == "semi_updates" else directions * (columns + ranks)
            assert 0 < numbers["combine"] <= even, (rank, ranks)


def test_ranks_of_a_small_network_make_complete_chunks_and_no_more(monkeypatch):
    """Members share passes then: a rank makes at most the noise of MOST directions, or NUMBERS, more than its own."""
    columns = build(Options(composed("model=MNIST_10K", "batch_size=2")), SingleProcess()).layout.size
    for sampler, ranks in product(("antithetic", "iid"), (1, 7, 96, 400)):
        numbers, sides = numbers_a_rank(monkeypatch, ranks // 2, ranks, f"sampler={sampler}", examples=2), 1 + (sampler != "iid")
        assert numbers["perturb"] == 0
        chunk = shared_directions(MEMBERS * ranks // sides, columns, sides)
        assert 0 < numbers["draw"] <= chunk * columns <= max(MOST * columns, NUMBERS)


@pytest.mark.parametrize(
    ("directions", "size", "length"),
    [(100, 354, 256), (100, 2**13, 128), (5000, 354, 625), (5000, 2**13, 256), (2**24, 354, 2**20 // 354), (2**24, 1, 2**20)],
)
def test_a_chunk_has_an_eighth_of_many_small_members_and_no_more_than_a_million_numbers(directions, size, length):
    assert shared_directions(directions, size, 2) == length


def test_replicated_makes_the_noise_of_all_members(monkeypatch):
    """The growth that the other methods avoid: seen here, so the test above would see it."""
    few, many = (numbers_a_rank(monkeypatch, 0, ranks, "distribution=replicated")["combine"] for ranks in (2, 16))
    assert many > 7 * few


def test_replicated_with_a_sampler_that_reuses_noise_grows_by_factors_only(monkeypatch):
    """One matrix of noise for all, and for each direction the factors of its layers: their sum, not their product."""
    options = ("distribution=replicated", "sampler=low_rank")
    few, many = (sum(numbers_a_rank(monkeypatch, 0, ranks, *options).values()) for ranks in (2, 16))
    columns = build(Options(composed("model=MNIST_10K", "batch_size=2")), SingleProcess()).layout.size
    added = 14 * MEMBERS // 2
    assert 0 < many - few < added * columns / 4


@pytest.mark.parametrize(("start", "length"), [(0, 1), (300, 114), (1000, 114), (250, 10), (1023, 2), (700, 324), (5, 255)])
def test_a_slice_makes_hardly_more_words_than_it_has_columns(start, length):
    """At N = 96 a slice is a small part of a tile: groups of 32 columns are made, and the three words that come with each."""
    made = 0
    for tile in range(start // philox.TILE, (start + length - 1) // philox.TILE + 1):
        low, high = max(start - tile * philox.TILE, 0), min(start + length - tile * philox.TILE, philox.TILE)
        low, high = low // noise_kernels.STEP * noise_kernels.STEP, -(-high // noise_kernels.STEP) * noise_kernels.STEP
        words = np.zeros((4, philox.LANE), np.uint32)
        noise_kernels._word_slice(tile, 1, 2, 0, 3, 4, words, low, high)
        made += np.count_nonzero(words)
        whole = np.zeros((4, philox.LANE), np.uint32)
        noise_kernels._word_counters(tile, 1, 2, 0, 3, 4, whole, 0, philox.LANE)
        assert np.array_equal(words.reshape(-1)[low:high], whole.reshape(-1)[low:high])
    assert made <= 4 * (length + 2 * noise_kernels.STEP * (1 + (length > 1)))
