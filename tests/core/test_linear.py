"""Linear layers of many members by compiled loops against their definitions in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from draws import normal, words
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core.kernels import blas
from neuro_cli.core.kernels import numba_linear as linear
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.rows import MemberBatch, random_signs, repeat, repeated

SCALES = (0.5, -0.25)


class Case:
    """A layer of I inputs and O outputs, for rows of two sides, with and without a bias."""

    def __init__(self, directions: int, examples: int, points: int, inputs: int, outputs: int, bias: bool) -> None:
        self.rows = MemberBatch(SCALES, directions, examples)
        shape = (self.rows.count, points, inputs) if points > 1 else (self.rows.count, inputs)
        self.weight = normal(outputs, inputs, seed=1)
        self.bias = normal(outputs, seed=2) if bias else None
        self.layer = LinearLayer(self.rows, normal(*shape, seed=3), self.weight, self.bias)
        self.x = self.layer.x.double().reshape(len(SCALES), directions, -1, inputs)
        self.scales = torch.tensor(SCALES, dtype=torch.float64)[:, None, None, None]

    def check(self, made: Tensor, step: Tensor, shift: Tensor | None) -> None:
        """Compare with the centre's outcomes plus scale * (step (S, D, k, O) + shift (D, O))."""
        expected = self.x @ self.weight.double().T + self.scales * step
        if self.bias is not None:
            expected = expected + self.bias.double()
        if shift is not None:
            expected = expected + self.scales * shift.double()[:, None]
        assert self.layer.served
        near = 1e-5 * float(expected.abs().max())
        torch.testing.assert_close(made.double().view(expected.shape), expected, rtol=1e-5, atol=near)


SHAPES = st.tuples(
    st.integers(1, 40), st.integers(1, 3), st.sampled_from([1, 5]), st.integers(1, 70), st.integers(1, 70), st.booleans()
)


@given(shape=SHAPES, sides=st.sampled_from(["both", "inputs", "outputs"]))
@settings(max_examples=15, deadline=None)
def test_sign_flips(shape, sides):
    case = Case(*shape)
    directions, _, _, inputs, outputs, bias = shape
    noise, shift = normal(outputs, inputs, seed=4), normal(outputs, seed=5) if bias else None
    widths = [-(-count // 32) for count in (inputs, outputs, outputs)]
    drawn = words(directions, sum(widths))
    starts = [0, widths[0], widths[0] + widths[1]]
    signs = [
        random_signs(drawn[:, start : start + width], count, torch.float64)
        for start, width, count in zip(starts, widths, (inputs, outputs, outputs), strict=True)
    ]
    before = signs[0] if sides != "outputs" else torch.ones_like(signs[0])
    after = signs[1] if sides != "inputs" else torch.ones_like(signs[1])
    columns = (starts[0] if sides != "outputs" else -1, starts[1] if sides != "inputs" else -1, starts[2] if bias else -1)
    made = case.layer.flipped(noise, shift, drawn, columns)
    step = (case.x * before[:, None]) @ noise.double().T * after[:, None]
    case.check(made, step, None if shift is None else signs[2] * shift)


@pytest.mark.parametrize("sides", [1, 2])
def test_rows_that_repeat_meet_the_centre_once(sides):
    """More rows than a block has, of one side for two, and of all sides."""
    rows = MemberBatch((0.5, -0.25)[:sides], 90, 7)
    x, weight, bias, factors = torch.randn(7, 33), torch.randn(19, 33), torch.randn(19), torch.randn(90, 33 + 19)
    made, wanted = (
        LinearLayer(rows, given, weight, bias).low_rank(factors, None, (19, 0), 1, 1.0)
        for given in (repeated(x, 90), x.repeat(90, 1))
    )
    torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-4)
    plain = F.linear(x, weight, bias).repeat(90 * sides, 1)
    assert not torch.allclose(made, plain)


@given(shape=SHAPES, rank=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_low_rank(shape, rank):
    case = Case(*shape)
    directions, _, _, inputs, outputs, bias = shape
    factors = normal(directions, 2 + rank * (inputs + outputs), seed=4)
    shifts = normal(directions, outputs, seed=5) if bias else None
    made = case.layer.low_rank(factors, shifts, (2 + rank * outputs, 2), rank, 0.7)
    a = factors[:, 2 : 2 + rank * outputs].double().view(directions, rank, outputs)
    b = factors[:, 2 + rank * outputs :].double().view(directions, rank, inputs)
    case.check(made, 0.7 * case.x @ b.transpose(1, 2) @ a, shifts)


@given(shape=SHAPES, times=st.integers(1, 3), sides=st.integers(1, 2))
@settings(max_examples=15, deadline=None)
def test_rows_that_repeat_have_the_outcomes_of_rows_that_do_not(shape, times, sides):
    """Rows of one side for all sides, and rows of all sides; the bits differ where a product has other numbers of rows."""
    directions, examples, points, inputs, outputs, bias = shape
    rows = MemberBatch(SCALES, times * directions, examples)
    first = normal(directions * examples, *[points] * (points > 1), inputs, seed=1)
    weight, shift = normal(outputs, inputs, seed=2), normal(outputs, seed=3) if bias else None
    noise, factors = normal(outputs, inputs, seed=4), normal(rows.directions, inputs + outputs, seed=5)
    widths = [-(-count // 32) for count in (inputs, outputs)]
    drawn = words(rows.directions, sum(widths))
    calls = (
        lambda layer: layer.flipped(noise, None, drawn, (0, widths[0], -1)),
        lambda layer: layer.low_rank(factors, None, (outputs, 0), 1, 1.0),
    )
    for call in calls:
        made, wanted = (
            call(LinearLayer(rows, x, weight, shift)) for x in (repeated(first, times * sides), repeat(first, times * sides))
        )
        torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-4)


def test_a_bias_of_one_number_in_memory_is_that_of_all_outputs():
    rows, x, weight, shift = MemberBatch(SCALES, 2, 1), normal(4, 5, seed=1), normal(17, 5, seed=2), normal(1, seed=3)
    noise, drawn = normal(17, 5, seed=4), words(2, 3)
    made, wanted = (
        LinearLayer(rows, x, weight, one).flipped(noise, one, drawn, (0, 1, 2))
        for one in (shift.expand(17), shift.expand(17).contiguous())
    )
    assert torch.equal(made, wanted)


def test_no_inputs_and_no_outputs_are_not_for_the_loops():
    rows = MemberBatch(SCALES, 2, 1)
    for inputs, outputs in ((0, 3), (3, 0)):
        assert not LinearLayer(rows, torch.ones(4, inputs), torch.ones(outputs, inputs), None).served


def test_many_blocks_and_the_last_one_short():
    """More rows than a block has, a border of sides inside of one, and a block's bits do not depend on what follows."""
    case = Case(700, 1, 1, 33, 20, True)
    drawn = words(700, 4)
    noise, shift = normal(20, 33, seed=4), normal(20, seed=5)
    made = case.layer.flipped(noise, shift, drawn, (0, 2, 3))
    before, after, own = (random_signs(drawn[:, place:], count, torch.float64) for place, count in ((0, 33), (2, 20), (3, 20)))
    case.check(made, (case.x * before[:, None]) @ noise.double().T * after[:, None], own * shift)


@pytest.mark.parametrize(
    "x", [normal(4, 3, seed=1).double(), normal(3, 4, seed=1).T, torch.empty(4, 3).half(), torch.empty(0, 3)]
)
def test_what_the_loops_do_not_serve(x):
    assert not LinearLayer(MemberBatch(SCALES, 2, 1), x, torch.randn(2, 3, dtype=x.dtype), None).served


@given(shape=SHAPES)
@settings(max_examples=15, deadline=None)
def test_low_rank_in_bfloat16_is_that_of_float32_rounded(shape):
    """Of numbers that bfloat16 holds; outcomes are as near as its eight bits, twice: the centre's are rounded too."""
    directions, examples, points, inputs, outputs, bias = shape
    rows = MemberBatch(SCALES, directions, examples)
    size = (rows.count, points, inputs) if points > 1 else (rows.count, inputs)
    x, weight = (normal(*form, seed=seed).bfloat16() for seed, form in enumerate((size, (outputs, inputs))))
    shift = normal(outputs, seed=5).bfloat16() if bias else None
    half = LinearLayer(rows, x, weight, shift)
    single = LinearLayer(rows, x.float(), weight.float(), None if shift is None else shift.float())
    factors, own = normal(directions, inputs + outputs, seed=6), normal(directions, outputs, seed=7) if bias else None
    centre = 2**-8 * float(torch.nn.functional.linear(single.x, single.weight, single.bias).abs().max())
    made, wanted = (layer.low_rank(factors, own, (outputs, 0), 1, 1.0) for layer in (half, single))
    assert half.served_half
    assert made.dtype == torch.bfloat16
    torch.testing.assert_close(made.float(), wanted, rtol=2**-8, atol=1e-5 * float(wanted.abs().max()) + centre)


def test_what_is_no_number_stays_none_in_bfloat16():
    x = torch.full((2, 3), torch.nan).bfloat16()
    made = LinearLayer(MemberBatch((1.0,), 2, 1), x, torch.ones(17, 3).bfloat16(), None).low_rank(
        torch.ones(2, 20), None, (17, 0), 1, 1.0
    )
    assert made.isnan().all()


def test_products_are_those_of_torch():
    """The same bits, for it is the same library; and nothing of what lies in the outcome is read."""
    x, weight = normal(256, 64, seed=1), normal(48, 64, seed=2)
    out = np.full((256, 48), np.nan, np.float32)
    blas.product(x.numpy(), weight.numpy(), out)
    assert np.array_equal(out, torch.nn.functional.linear(x, weight).numpy())
    assert linear.product is blas.product


def test_a_blas_that_cannot_be_called_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(blas, "NAMES", ("no_such_function",))
    assert not blas._found()
    assert [record.getMessage() for record in caplog.records] == [
        "torch's BLAS has no sgemm to call: linear layers of many members go by torch operations, slower"
    ]


@pytest.mark.parametrize("shape", [(1, 10, 3), (7, 27, 10), (64, 64, 100), (256, 100, 64)])
def test_bits_of_products_do_not_depend_on_where_matrices_lie(shape):
    """Blocks lie wherever the loops' memory is, which differs from run to run."""
    n, inner, width = shape
    random = np.random.default_rng(1)
    x, weight, y = (random.standard_normal(size).astype(np.float32) for size in ((n, inner), (width, inner), (n, width)))

    def moved(array: np.ndarray, numbers: int) -> np.ndarray:
        room = np.empty(array.size + 32, np.float32)
        first = -(room.ctypes.data // 4) % 16 + numbers
        made = room[first : first + array.size].reshape(array.shape)
        made[...] = array
        return made

    outcomes = []
    for numbers in (0, 8, 1):
        made = moved(y, numbers)
        blas.product(moved(x, numbers), moved(weight, numbers), made)
        outcomes.append(made)
    for made in outcomes[1:]:
        assert np.array_equal(made, outcomes[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_rows_of_one_side_are_those_of_all_sides(dtype, bias):
    """More rows than a block has."""
    directions, examples, inputs, outputs = 400, 2, 37, 19
    rows = MemberBatch((*SCALES, 2.0), directions, examples)
    x, weight, noise = (normal(*size, seed=1).to(dtype) for size in ((800, inputs), (outputs, inputs), (outputs, inputs)))
    shift, own = (normal(outputs, seed=2).to(dtype), normal(directions, outputs, seed=3)) if bias else (None, None)
    drawn, factors = words(directions, 4), normal(directions, inputs + outputs, seed=4)
    one, all_of_them = (LinearLayer(rows, part, weight, shift) for part in (x, torch.cat([x] * 3)))
    calls = (
        lambda layer: layer.flipped(noise, None if shift is None else shift.float(), drawn, (0, 2, 3 if bias else -1)),
        lambda layer: layer.low_rank(factors, own, (outputs, 0), 1, 1.0),
    )
    for call in calls if dtype == torch.float32 else calls[-1:]:
        assert one.served or one.served_half
        made, wanted = call(one), call(all_of_them)
        # blocks begin elsewhere, so products of other numbers of rows may round otherwise
        torch.testing.assert_close(made, wanted, rtol=2**-7 if dtype == torch.bfloat16 else 1e-5, atol=1e-4)
        assert made.shape == (2400, outputs)
