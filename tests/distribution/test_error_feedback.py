"""Rounded sums with error feedback: against plain loops in float64, and what they promise over many generations."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pairwise import each_pair
from support.thread_ranks import on_ranks

from neuro_cli.algo.base import Combination, State
from neuro_cli.core.clock import Clock
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.codec import codec_of
from neuro_cli.distribution.error_feedback import Feedback
from neuro_cli.distribution.semi_updates import SemiUpdates
from neuro_cli.fabric.base import World

GENERATIONS, POPULATION, ROWS = 6, 12, 2
NOISE = torch.randn(GENERATIONS, POPULATION, 3000, generator=torch.Generator().manual_seed(5))
WEIGHTS = np.random.default_rng(5).standard_normal((ROWS, POPULATION))


class Given:
    """A sampler whose noise is a table."""

    antithetic = False

    def __init__(self, columns: int) -> None:
        self._noise = NOISE[:, :, :columns]

    def serve(self, algo):
        pass

    def combine(self, weights, moments, generation, members, start, stop, unit=None):
        own = self._noise[generation, members.start : members.stop, start:stop].double()
        return (torch.from_numpy(weights) @ own).float()


def bound(method, world: World, columns: int):
    algo = SimpleNamespace(uses_gradient=False, sums_add_up=True, pair=lambda mirrored: None, centre=torch.zeros(columns))
    method.bind(
        SimpleNamespace(world=world, algo=algo, sampler=Given(columns), clock=Clock(), population=POPULATION, columns=columns)
    )
    return method


def sums_of(method, generations: range) -> np.ndarray:
    """(G, K, M): the sums of some generations."""
    return np.stack([method.combine(g, Combination(WEIGHTS, (1, 1))).numpy() for g in generations])


def exact(columns: int, members: slice = slice(None)) -> np.ndarray:
    """The sums that are asked for, float64 (G, K, M)."""
    return np.einsum("kp,gpm->gkm", WEIGHTS[:, members], NOISE[:, members, :columns].double().numpy())


def rounded(values: np.ndarray) -> np.ndarray:
    """int8 by definition, in float64: (K, M)."""
    out = np.empty_like(values)
    for row in range(len(values)):
        for low in range(0, values.shape[1], 256):
            block = values[row, low : low + 256]
            scale = np.float64(np.float32(np.abs(block).max()) / np.float32(127))
            out[row, low : low + 256] = np.rint(block / scale) * scale
    return out


def fed_back(asked: np.ndarray) -> np.ndarray:
    """What is sent generation by generation when each asks for ``asked`` (G, K, M)."""
    kept, sent = np.zeros(asked.shape[1:]), []
    for wanted in asked:
        sent.append(rounded(wanted + kept))
        kept = wanted + kept - sent[-1]
    return np.array(sent)


def nearly_all_equal(made: np.ndarray, expected: np.ndarray, step: float) -> None:
    """Float32 and float64 may round a number at the middle between two levels to either of them, and then go on from there."""
    away = np.abs(made - expected) > 1e-4 * step
    assert away.mean() < 2e-3
    assert np.abs(made - expected).max() < 2.1 * step


METHODS = {"chromosome": lambda: ChromosomeUpdates("int8"), "semi": lambda: SemiUpdates(wire="int8")}
STEP = 5 * np.linalg.norm(WEIGHTS, axis=1).max() / 127  # of int8, for the largest of 256 normals


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("kind", ["chromosome", "semi"])
def test_rounded_sums_are_the_float64_loop(kind, ranks):
    made = on_ranks(ranks, lambda world: sums_of(bound(METHODS[kind](), world, 3000), range(GENERATIONS)))
    # semi-updates round twice: each rank's own sums, then their total
    shares = [slice(POPULATION * rank // ranks, POPULATION * (rank + 1) // ranks) for rank in range(ranks)]
    asked = exact(3000) if kind == "chromosome" else sum(fed_back(exact(3000, share)) for share in shares)
    nearly_all_equal(made[0], fed_back(asked), STEP)
    for other in made[1:]:
        assert np.array_equal(other, made[0])


@each_pair(wire=["float32", "bfloat16", "int8"], overlap=[False, True], columns=[5, 300, 3000])
def test_chromosome_updates_have_the_same_bits_on_any_number_of_ranks(wire, overlap, columns, monkeypatch):
    """Also on more ranks than there are blocks, and in pieces that other ranks have fewer of."""
    monkeypatch.setattr("neuro_cli.distribution.chromosome_updates.PIECE", 500)
    alone = on_ranks(1, lambda world: sums_of(bound(ChromosomeUpdates(wire), world, columns), range(3)))[0]
    for ranks in (2, 3, 5, 12):
        made = on_ranks(ranks, lambda world: sums_of(bound(ChromosomeUpdates(wire, overlap), world, columns), range(3)))
        assert all(np.array_equal(sums, alone) for sums in made), ranks


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30), st.integers(1, 700), st.sampled_from(["bfloat16", "int8"]))
def test_what_was_sent_and_what_is_kept_are_all_that_was_asked_for(sizes, columns, wire):
    codec, generator = codec_of(wire), torch.Generator().manual_seed(len(sizes))
    feedback, sent, asked = Feedback(codec, columns), torch.zeros(1, columns).double(), torch.zeros(1, columns).double()
    for size in sizes:
        values = size * torch.randn(1, columns, generator=generator)
        asked += values
        sent += codec.decode(feedback.encode(values.clone(), 0), 1, columns)
    assert feedback.kept is not None
    # one rounding of float32 a generation where the kept is added, one where the sent is subtracted
    assert (sent + feedback.kept - asked).abs().max() <= 1.2e-7 * 6 * sum(sizes)


def test_what_is_kept_stays_small():
    """It does not pile up: after many generations it is still one rounding."""
    codec = codec_of("int8")
    feedback, generator = Feedback(codec, 1000), torch.Generator().manual_seed(1)
    for _ in range(300):
        feedback.encode(torch.randn(1, 1000, generator=generator), 0)
    assert feedback.kept is not None
    assert 0 < feedback.kept.abs().max() < 6 / 127


def state_after(kind: str, ranks: int, generations: int) -> State:
    def work(world: World) -> State:
        method = bound(METHODS[kind](), world, 3000)
        sums_of(method, range(generations))
        return method.state()

    states = on_ranks(ranks, work)
    assert all(state.tensors == {} for state in states[1:])
    return states[0]


def resumed(kind: str, ranks: int, state: State) -> list[np.ndarray]:
    def work(world: World) -> np.ndarray:
        method = bound(METHODS[kind](), world, 3000)
        method.restore(state)
        return sums_of(method, range(3, GENERATIONS))

    return on_ranks(ranks, work)


def whole(kind: str, ranks: int) -> np.ndarray:
    return on_ranks(ranks, lambda world: sums_of(bound(METHODS[kind](), world, 3000), range(GENERATIONS)))[0][3:]


@pytest.mark.parametrize(("kind", "before", "after"), [("chromosome", 2, 3), ("chromosome", 3, 1), ("semi", 3, 3)])
def test_a_restored_state_goes_on_to_the_same_bits(kind, before, after):
    made, expected = resumed(kind, after, state_after(kind, before, 3)), whole(kind, before)
    assert all(np.array_equal(sums, expected) for sums in made)
    fresh = resumed(kind, after, State())
    assert not np.array_equal(fresh[0], expected), "nothing was kept, so this test would see nothing"


@pytest.mark.parametrize(
    ("first", "before", "second", "after"), [("semi", 3, "semi", 2), ("semi", 3, "chromosome", 2), ("chromosome", 2, "semi", 3)]
)
def test_what_was_kept_is_sent_by_other_ranks_or_another_method_too(first, before, second, after, caplog):
    state = state_after(first, before, 3)

    def kept(world: World) -> State:
        method = bound(METHODS[second](), world, 3000)
        method.restore(state)
        return method.state()

    def total(state: State) -> torch.Tensor:
        return state.tensors["unsent"] + state.tensors.get("unsent_by_rank", torch.zeros(1, ROWS, 3000)).sum(0)

    torch.testing.assert_close(total(on_ranks(after, kept)[0]), total(state), rtol=1e-5, atol=1e-6)
    assert total(state).abs().max() > 0
    assert any("continue as one sum" in record.message for record in caplog.records)


def test_a_method_that_rounds_nothing_keeps_nothing():
    assert bound(ChromosomeUpdates(), on_ranks(1, lambda world: world)[0], 300).state() == State()
