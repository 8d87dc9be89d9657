"""No compiled loop touches what is not its own, whatever the shapes: sizes 0, 1 and 2, odd ones, kernels wider than the map.

Each is run twice, as Python that refuses an index or address outside of an array, and compiled between guards, and has to give
what its definition gives.
"""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import test_linear
import test_rows
import test_sums
import test_winograd
import torch
import torch.nn.functional as F
from checked_loops import watching
from draws import close, normal, words
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

from neuro_cli.core import noise as addressed
from neuro_cli.core import philox, rows
from neuro_cli.core.kernels import (
    activations,
    attention,
    blas,
    numba_noise,
    own_chain,
    own_layer,
    own_recurrence,
    tiles,
    winograd,
)
from neuro_cli.core.kernels import numba_blocks as blocks
from neuro_cli.core.kernels import numba_rows as row_kernels
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import NOISE_STREAM, WEIGHT_STREAM, Noise, Tier
from neuro_cli.core.rows import Geometry, MemberBatch, out_sizes, random_orders
from neuro_cli.core.seeds import key_of
from neuro_cli.sampler.placement import count_places
from neuro_cli.scoring.passes import recurrent
from neuro_cli.task.reinforcement import policy_kernels

FEW = st.integers(1, 3)
SIZES = st.sampled_from([1, 2, 3, 15, 16, 17, 31, 33])
SEEDS = st.integers(0, 99)
drawn = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module", params=["python", "guarded"])
def loops(request):
    """Names of a module of loops, which are watched; few turns of long loops in Python."""
    few = {"NEAR": 64, "FASTER": True, "LEAST": 8, "HIDDEN": 64} if request.param == "python" else {}
    with watching(request.param, **few) as names:
        yield names


@given(
    sizes=st.tuples(SIZES, SIZES), shape=st.tuples(FEW, st.sampled_from([1, 3, 7, 8, 9, 16, 19])), sides=FEW,
    shared=st.booleans(), biases=st.sampled_from("nvb"),
)  # fmt: skip
@drawn
def test_layers_with_own_weights(loops, sizes, shape, sides, shared, biases):
    (inner, outputs), (directions, points) = sizes, shape
    x = normal(1 if shared else sides, directions, points, inner)
    weight, noise, bias = normal(outputs, inner), normal(directions, outputs * (inner + 1) + 3, seed=2), normal(outputs, seed=3)
    scales = np.linspace(-0.5, 0.7, sides, dtype=np.float32)
    out, shift = torch.empty(sides, directions, points, outputs), -1 if biases == "n" else 2 + inner * outputs
    given_bias = np.empty(0, np.float32) if biases == "v" else bias.numpy()
    kernels = loops(own_layer)
    kernels.dense_layer(x.numpy(), weight.numpy(), given_bias, noise.numpy(), 2, shift, scales, out.numpy())
    steps = torch.from_numpy(scales).view(-1, 1, 1, 1)
    wanted = x @ (weight + steps * noise[:, 2 : 2 + inner * outputs].view(directions, outputs, inner)).mT
    wanted = wanted if biases == "v" else wanted + bias
    close(out, wanted if shift < 0 else wanted + steps * noise[:, None, shift : shift + outputs])


FUNCTIONS = (lambda x: x, torch.tanh, torch.relu, F.gelu)  # in the order of the activations' numbers


@given(
    widths=st.lists(SIZES, min_size=2, max_size=4), shape=st.tuples(FEW, SIZES), sides=FEW, shared=st.booleans(), seed=SEEDS,
    tiled=st.booleans(),
)  # fmt: skip
@drawn
def test_chains_of_layers_with_own_weights(loops, widths, shape, sides, shared, seed, tiled):
    random, (directions, points) = np.random.default_rng(seed), shape
    points = max(points, tiles.ROWS) if tiled else points
    layers, used = [], 0
    for inputs, outputs in pairwise(widths):
        start, used = used, used + outputs * (inputs + 1)
        bias, moved = random.choice([(-1, -1), (1, -1), (1, 1)])
        shift = start + inputs * outputs
        kind = random.integers(len(FUNCTIONS))
        layers.append([inputs, outputs, start, shift if bias > 0 else -1, start + 3, shift + 3 if moved > 0 else -1, kind])
    x, centre, noise = normal(1 if shared else sides, directions, points, widths[0]), normal(used), normal(directions, used + 3)
    scales, out = np.linspace(-0.5, 0.7, sides, dtype=np.float32), torch.empty(sides, directions, points, widths[-1])
    chain = loops(own_chain).tiled_chain if tiled else loops(own_chain).own_chain
    chain(x.numpy(), centre.numpy(), noise.numpy(), np.array(layers), scales, out.numpy())
    steps, wanted = torch.from_numpy(scales).double()[:, None, None], x.double()
    for inputs, outputs, weight, bias, own, moved, kind in layers:
        size = inputs * outputs
        weights = centre[weight : weight + size].double() + steps * noise[:, own : own + size].double()
        wanted = wanted @ weights.unflatten(2, (outputs, inputs)).mT
        wanted = wanted if bias < 0 else wanted + centre[bias : bias + outputs]
        wanted = wanted if moved < 0 else wanted + (steps * noise[:, moved : moved + outputs])[:, :, None]
        wanted = FUNCTIONS[kind](wanted)
    close(out, wanted)


@given(count=st.sampled_from([0, 1, 15, 16, 17, 33]), kind=st.integers(0, 3))
@drawn
def test_activations_by_themselves(loops, count, kind):
    x, out = 4 * normal(count), torch.empty(count)
    loops(own_chain).activated(x.numpy(), kind, out.numpy())
    close(out, FUNCTIONS[kind](x.double()))


CELLS = (nn.GRU, nn.LSTM, nn.RNN, partial(nn.RNN, nonlinearity="relu"))  # in the order of their numbers


@given(
    sizes=st.tuples(SIZES, SIZES), shape=st.tuples(FEW, st.sampled_from([1, 4, 5]), st.sampled_from([0, 1, 3])), sides=FEW,
    shared=st.booleans(), kind=st.integers(0, 3), backwards=st.booleans(), noisy=st.sampled_from(["weights", "no bias", "all"]),
)  # fmt: skip
@drawn
def test_recurrent_layers_with_own_weights(loops, sizes, shape, sides, shared, kind, backwards, noisy):
    (inner, count), (directions, examples, steps) = sizes, shape
    lines, parts = own_recurrence.GATES[kind] * count, 1 + (kind == own_recurrence.LSTM)
    pieces = [lines * inner, lines * count, *([] if noisy == "no bias" else [lines, lines])]
    x, state = (
        normal(1 if shared else sides, directions, examples, steps, inner),
        normal(parts, sides, directions, examples, count),
    )
    centre, noise = normal(sum(pieces), seed=2) / 4, normal(directions, sum(pieces) + 3, seed=3)
    columns = np.array([3, 3 + pieces[0], *((-1, -1) if noisy != "all" else (3 + sum(pieces[:2]), 3 + sum(pieces[:3])))])
    scales = np.linspace(-0.2, 0.3, sides, dtype=np.float32)
    out, last = torch.empty(sides, directions, examples, steps, count), torch.empty_like(state)
    arrays = [part.numpy() for part in (x, state, centre, noise)]
    loops(own_recurrence).own_recurrence(kind, backwards, *arrays, columns, scales, out.numpy(), last.numpy())
    layer = CELLS[kind](inner, count, bias=noisy != "no bias", batch_first=True).double()
    if noisy != "all":
        noise[:, 3 + sum(pieces[:2]) :] = 0
    for side, direction in np.ndindex(sides, directions):
        member = centre.double() + float(scales[side]) * noise[direction, 3:].double()
        nn.utils.vector_to_parameters(member, layer.parameters())
        given, first = x[side % len(x), direction].double(), state[:, side, direction].double()
        wanted, ended = first.new_empty(examples, 0, count), first
        if steps:
            with torch.no_grad():
                begin = (first[:1], first[1:]) if parts > 1 else first
                wanted, ended = layer(given.flip(1) if backwards else given, begin)
        close(out[side, direction], wanted.flip(1) if backwards else wanted)
        close(last[:, side, direction], torch.cat(ended) if isinstance(ended, tuple) else ended)


@given(rows=FEW, count=SIZES, kind=st.integers(0, 3))
@drawn
def test_steps_of_recurrent_layers(loops, rows, count, kind):
    wide = own_recurrence.GATES[kind] * count
    one, other = normal(rows, 2, wide)[:, 1], normal(rows, wide, seed=1)
    state, memory = normal(rows, count, seed=2), normal(rows, count, seed=3)
    given = (state.double(), memory.double()) if kind == own_recurrence.LSTM else (state.double(),)
    wanted = recurrent.CELLS[kind](one.double(), other.double(), given)
    loops(own_recurrence).advance(kind, *(part.numpy() for part in (one, other, state, memory)))
    for made, right in zip((state, memory), wanted, strict=False):
        close(made, right)


@given(channels=SIZES, kept=SIZES, examples=FEW, seed=SEEDS, single=st.booleans())
@drawn
def test_signs_and_places_of_features(loops, channels, kept, examples, seed, single):
    test_rows.test_signs_of_features_have_the_bits_of_products_with_signs.hypothesis.inner_test(channels, examples, seed, single)
    test_rows.test_places_of_features_are_those_of_an_assignment.hypothesis.inner_test(channels, kept, seed)


OPERATIONS = ["add_vectors", "gather", "add_scattered", "add_outer", "add_outer_of_groups"]


@pytest.mark.parametrize("name", OPERATIONS)
@given(
    channels=st.integers(1, 9), size=st.tuples(st.integers(0, 2), st.integers(0, 3)), directions=FEW, examples=FEW,
    sides=st.integers(1, 2), seed=SEEDS, single=st.booleans(),
)  # fmt: skip
@drawn
def test_rows_of_images(loops, name, channels, size, directions, examples, sides, seed, single):
    dtype = torch.float32 if single else torch.float64
    members, groups = MemberBatch([0.5, -0.25][:sides], directions, examples), 3 if name == "add_outer_of_groups" else 1
    channels *= groups
    x, y, maps = (
        test_rows.image(members.count, width, *size, dtype=dtype, seed=seed) for width in (channels, channels, 2 * groups)
    )
    order = random_orders(words(directions, channels, seed), -(-channels // 2))
    vectors, factors = normal(directions, channels).to(dtype), normal(directions, 2, channels).to(dtype)
    calls = {
        "add_vectors": lambda y: members.add_vectors(y, vectors, 1),
        "gather": lambda y: members.gather(x, order, 1),
        "add_scattered": lambda y: members.add_scattered(y, members.gather(x, order, 1), order, 1),
    }
    call = calls.get(name, lambda y: members.add_outer(y, maps, factors, 1, groups))
    made = call(y.clone())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_channels_last", lambda *given: None)
        close(made, call(y.clone()))


@given(
    inner=st.integers(1, 3), groups=st.integers(1, 3), rank=st.integers(1, 2), size=st.tuples(FEW, st.integers(1, 5)),
    kernel=st.tuples(FEW, st.integers(1, 7)), stride=st.tuples(FEW, FEW), padding=st.tuples(st.integers(0, 4), st.integers(0, 9)),
    dilation=st.tuples(FEW, st.integers(1, 4)), members=st.sampled_from([(1, 1, 1), (2, 1, 1), (2, 2, 2)]), single=st.booleans(),
)  # fmt: skip
@settings(drawn, max_examples=40)
def test_filters(loops, inner, groups, rank, size, kernel, stride, padding, dilation, members, single):
    geometry, dtype = Geometry(stride, padding, dilation, groups), torch.float32 if single else torch.float64
    assume(min(out_sizes(size, kernel, geometry)) > 0)
    batch = MemberBatch([0.5, -0.25][: members[0]], *members[1:])
    x = test_rows.image(batch.count, inner * groups, *size, dtype=dtype)
    filters = normal(members[1], rank, inner, *kernel).to(dtype)
    close(batch.filtered(x, filters, geometry), batch._filtered_by_torch(x, filters, geometry))


@given(channels=st.sampled_from([0, 1, 2, 17]), points=st.integers(0, 3), rank=st.integers(1, 2), examples=FEW)
@drawn
def test_products_with_features(loops, channels, points, rank, examples):
    members = MemberBatch([0.5, -0.25], 2, examples)
    x, filters = normal(members.count, points, channels), normal(2, rank, channels)
    close(members.projected(x, filters), torch.bmm(x, members.repeated(filters).transpose(1, 2)))


@given(
    width=SIZES, lines=FEW, places=st.integers(0, 3), directions=FEW, sides=st.integers(1, 2), examples=FEW,
    first=st.integers(0, 3), single=st.booleans(), seed=SEEDS,
)  # fmt: skip
@drawn
def test_lines_of_tables_with_noise(loops, width, lines, places, directions, sides, examples, first, single, seed):
    dtype = torch.float32 if single else torch.float64
    rows = MemberBatch([0.5, -0.3][:sides], directions, examples)
    y, noise = normal(rows.count, places, width).to(dtype), normal(directions, first + lines * width, seed=2).to(dtype)
    index = np.random.default_rng(seed).integers(0, lines, (rows.count, places))
    table = rows.repeated(noise[:, first:].unflatten(1, (lines, width)))
    wanted = rows.add(y.clone(), table[torch.arange(rows.count)[:, None], torch.from_numpy(index)])
    arrays = noise.numpy(), first, index, lines, np.array(rows.scales, y.numpy().dtype)
    made, kernels = y.clone(), loops(row_kernels)
    assert kernels.add_lines(made.numpy(), *arrays)
    assert torch.equal(made, wanted)  # bit by bit
    for wrong in (-1, lines):
        index[-1, -1:] = wrong
        assert kernels.add_lines(y.clone().numpy(), *arrays) == (not places)


@given(members=FEW, points=SIZES, size=SIZES, far=st.sampled_from([0, 30]), single=st.booleans())
@drawn
def test_layer_norms_of_members(loops, members, points, size, far, single):
    dtype = torch.float32 if single else torch.float64
    x, weights, biases = (
        normal(members, *shape, seed=seed).to(dtype) for seed, shape in enumerate([(points, size), (size,), (size,)])
    )
    plain = F.layer_norm((x + far).double(), (size,)) * weights[:, None] + biases[:, None]
    # the mean's rounding is one of numbers ``far`` from zero, and a deviation may be near 0.003
    made = rows.layer_norm(x + far, weights, biases, 1e-5)
    assert made.dtype == dtype
    torch.testing.assert_close(made.double(), plain, rtol=1e-3 if single else 1e-9, atol=1e-4 * (1 + far) if single else 1e-9)


@given(sizes=st.tuples(FEW, FEW, SIZES, SIZES), depth=st.sampled_from([1, 7, 8, 17]), width=st.sampled_from([1, 8, 9]))
@drawn
@pytest.mark.parametrize("causal", [False, True])
def test_attention(loops, causal, sizes, depth, width):
    count, heads, length, seen = sizes
    # queries and values lie between other numbers, as parts of one product do: a layout in memory is a compilation
    query, key = normal(count, length, heads, depth + 3)[..., 2:-1].transpose(1, 2), normal(count, heads, seen, depth, seed=2)
    value = normal(count, seen, heads, width + 3, seed=3)[..., 2:-1].transpose(1, 2)
    out = torch.empty(count, heads, length, width)
    scale = np.float32(0.7)
    loops(attention).attended(query.numpy(), key.numpy(), value.numpy(), scale, causal, out.numpy())
    close(out, F.scaled_dot_product_attention(query.double(), key.double(), value.double(), is_causal=causal, scale=float(scale)))


@given(
    shape=st.tuples(FEW, FEW, st.sampled_from([1, 2]), SIZES, SIZES, st.booleans()), rank=st.integers(1, 2),
    sides=st.sampled_from(["both", "inputs", "outputs"]),
)  # fmt: skip
@drawn
def test_linear_layers(loops, shape, rank, sides):
    test_linear.test_sign_flips.hypothesis.inner_test(shape, sides)
    test_linear.test_low_rank.hypothesis.inner_test(shape, rank)
    test_linear.test_low_rank_in_bfloat16_is_that_of_float32_rounded.hypothesis.inner_test(shape)
    test_linear.test_rows_that_repeat_have_the_outcomes_of_rows_that_do_not.hypothesis.inner_test(shape, 2, 1 + len(sides) % 2)


@given(directions=st.sampled_from([1, 2, 5, 6, 11]), inputs=SIZES, outputs=SIZES, rank=st.integers(1, 2), low=st.integers(0, 5))
@drawn
def test_sums_over_directions(loops, directions, inputs, outputs, rank, low):
    test_sums.test_sums_of_outer_products_and_vectors.hypothesis.inner_test(directions, inputs, outputs, rank, low)
    index, weights, into = (
        random_orders(words(directions, outputs), -(-outputs // 2)),
        normal(directions),
        normal(-(-outputs // 2), outputs),
    )
    wanted = into.clone()
    lines = torch.arange(index.shape[1]).expand_as(index)
    wanted.index_put_((lines, index.long()), weights[:, None].expand_as(index), accumulate=True)
    count_places(index, weights, into)
    close(into, wanted)


@pytest.mark.parametrize(
    ("size", "start", "columns"),
    [(70, 0, 1), (70, 0, 70), (70, 3, 67), (70, 69, 1), (70, 16, 33), (70, 5, 0), (70, 70, 0), (4200, 1, 4199), (4096, 0, 4096)],
)
def test_sums_of_rows_that_were_drawn(loops, size, start, columns):
    rows, weights, out = normal(3, size).numpy(), normal(2, 3).double().numpy(), np.empty((2, columns), np.float32)
    offsets = np.array([2, 0, 1], np.uintp) * np.uintp(4 * size)
    loops(numba_noise).combine_rows(rows, offsets, weights, np.array([1, 2]), start, out)
    part = rows[[2, 0, 1], start : start + columns].astype(np.float64)
    np.testing.assert_allclose(out, np.stack([weights[0] @ part, weights[1] @ (part**2 - 1)]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 33])
def test_rounding_by_given_bits(loops, size):
    values, bits = np.arange(size, dtype=np.uint32) * np.uint32(65537), np.full(size, 0xFFFF, np.uint16)
    out = np.empty(size, np.uint16)
    loops(numba_noise).rounded(values, bits, out)
    np.testing.assert_array_equal(out, (values + np.uint32(0xFFFF)) >> np.uint32(16))


@pytest.mark.parametrize(("start", "size"), [(0, 0), (0, 8), (3, 4), (7, 30), (16, 1)])
def test_rounding_by_the_bits_of_columns(loops, start, size):
    values, out = np.arange(size, dtype=np.uint32) * np.uint32(65537), np.empty(size, np.uint16)
    loops(numba_noise).rounded_columns(*key_of(1), 2, WEIGHT_STREAM, 8, start, values, out)
    wanted = [addressed.random_words(1, 2, tile, WEIGHT_STREAM, 4).view(np.uint16) for tile in range(start // 8, 6)]
    bits = np.concatenate(wanted)[start % 8 :][:size]
    np.testing.assert_array_equal(out, (values + bits) >> np.uint32(16))


@pytest.mark.skipif(not winograd.AVAILABLE, reason="neither AVX2 nor AVX-512 here")
@given(
    count=FEW, channels=SIZES, outputs=SIZES, image=st.tuples(st.integers(1, 7), st.integers(1, 7)), groups=st.integers(1, 2),
    padding=st.tuples(FEW, FEW), bias=st.booleans(),
)  # fmt: skip
@settings(drawn, max_examples=8)
def test_convolutions_of_fewer_products(loops, request, bias, groups, **shape):
    """In Python only what they touch is held: their sums are instructions."""
    x, weight, shift = test_winograd.tensors(groups=groups, bias=bias, taps=(3, 3), **shape)
    made = test_winograd.convolved(x, weight, shift, shape["padding"], groups)
    if "guarded" in request.node.name:
        test_winograd.close(made, test_winograd.exact(x, weight, shift, shape["padding"], groups))


@given(
    start=st.sampled_from([0, 1, 1023, 1024, 2040]),
    length=st.sampled_from([0, 1, 2, 17, 33, 1024, 1500]),
    count=st.integers(1, 2),
)
@settings(drawn, max_examples=3)
def test_noise(loops, start, length, count):
    assume(start + length)
    directions = list(range(3, 3 + count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(addressed, "tier", Tier(few=0))
        noise, stop = Noise(1, start + length, torch.device("cpu"), Threads(1)), start + length
        words = philox.words(key_of(1), 2, torch.tensor(directions, dtype=torch.int64), NOISE_STREAM, 0, stop)
        normals = philox.normals(words)
        assert torch.equal(noise.draw(2, directions, start, stop), normals[:, start:])
        assert torch.equal(noise.words(2, directions, stop, NOISE_STREAM).long(), words)
        weights = np.arange(1.0, 1 + 2 * count).reshape(2, count)
        made = noise.combine(weights, [1, 2], 2, directions, start, stop)
        moments = normals[:, start:].double(), normals[:, start:].double() ** 2 - 1
        close(made, torch.stack([torch.from_numpy(row) @ moment for row, moment in zip(weights, moments, strict=True)]))
        base, scale = normal(stop), normal(stop) if stop != 1024 else torch.ones(1)
        for plus, minus in ((torch.empty(stop), torch.empty(stop)), (torch.empty(stop), None), (None, torch.empty(stop))):
            for direction in directions:
                noise.perturb(base, scale, 2, direction, plus, minus)
                step = scale * normals[directions.index(direction)]
                assert plus is None or torch.equal(plus, base + step)
                assert minus is None or torch.equal(minus, base - step)
        rows = torch.empty(2 * count, stop)
        which, signs = np.repeat(directions, 2), np.tile([1, -1], count)
        assert noise.members(base[None], np.zeros(2 * count, np.int64), scale, 2, which, signs, rows)
        steps = scale * normals
        assert torch.equal(rows, torch.stack([base + steps, base - steps], 1).view(-1, stop))


@given(
    lines=FEW, width=SIZES, sides=st.sampled_from([(True, True), (True, False), (False, True)]), one=st.booleans(), seed=SEEDS,
    kept=SIZES,
)  # fmt: skip
@drawn
def test_members_of_a_block(loops, lines, width, sides, one, seed, kept):
    kernels, random, size = loops(blocks), np.random.default_rng(seed), lines * width
    kept = min(kept, width)
    base, shared = random.standard_normal((2, size)).astype(np.float32)
    scale = random.standard_normal(1 if one else size).astype(np.float32)
    signs, columns = (random.choice([-1, 1], count).astype(np.float32) for count in (lines, width))
    small, from_row = random.standard_normal((2, kept)).astype(np.float32), random.integers(-1, 2, lines).astype(np.int32)
    places = random.permutation(width)[:kept].astype(np.int32)
    placed = np.zeros((lines, width), np.float32)
    placed[:, places] = np.where(from_row[:, None] >= 0, np.float32(1.5) * small[from_row], 0)
    cases = (
        (kernels.perturb_flipped, (shared, signs, columns), shared.reshape(lines, width) * signs[:, None] * columns),
        (kernels.perturb_placed, (small, np.float32(1.5), from_row, places, width), placed),
    )
    for loop, arguments, noise in cases:
        plus, minus = (np.empty(size if side else 0, np.float32) for side in sides)
        loop(base, scale, *arguments, plus, minus)
        for out, sign in ((plus, 1), (minus, -1)):
            if out.size:
                np.testing.assert_allclose(out, base + sign * scale * noise.reshape(size), rtol=1e-4, atol=1e-5)


@given(
    directions=FEW, lines=st.integers(1, 4), inner=st.sampled_from([1, 2, 9]), taps=st.sampled_from([1, 5, 16, 17]),
    square=st.booleans(), first=st.booleans(), seed=SEEDS,
)  # fmt: skip
@drawn
def test_sums_of_placed_noise(loops, directions, lines, inner, taps, square, first, seed):
    random, low, kept = np.random.default_rng(seed), lines // 3, -(-inner // 2)
    shared, weights = random.standard_normal((lines, kept * taps)).astype(np.float32), random.standard_normal(directions)
    order = np.stack([random.permutation(lines) for _ in range(directions)]).astype(np.int32)
    inputs = np.stack([random.permutation(inner)[:kept] for _ in range(directions)]).astype(np.int16)
    tap = np.arange(taps)
    columns = (tap[None, :, None] * inner + inputs[:, None] if first else inputs[:, :, None] * taps + tap).reshape(directions, -1)
    wanted = np.zeros((lines, inner * taps))
    for d in range(directions):
        wanted[order[d][:, None], columns[d]] += weights[d] * shared.astype(np.float64) ** (2 if square else 1)
    made = np.zeros((lines - low, inner * taps))
    loops(blocks).add_placed(shared, order, columns.astype(np.int32), weights, low, lines, square, made)
    np.testing.assert_allclose(made, wanted[low:], rtol=1e-9, atol=1e-9)


@given(count=st.sampled_from([0, 1, 2, 70]), directions=st.integers(0, 3), start=st.integers(0, 3))
@drawn
def test_sums_of_a_table(loops, count, directions, start):
    table, offsets = normal(80).numpy(), np.array([0, 80 - start - count, 2])[:directions]
    weights, out = np.arange(1.0, 1 + 2 * directions).reshape(2, directions), np.empty((2, count), np.float32)
    loops(blocks).table_sums(table, offsets, weights, np.array([1, 2]), start, out)
    values = np.stack([table[start + offset :][:count] for offset in offsets] or [np.zeros(count)]).astype(np.float64)[
        :directions
    ]
    np.testing.assert_allclose(out, [weights[0] @ values, weights[1] @ (values**2 - 1)], rtol=1e-4, atol=1e-4)


def gained(value: np.ndarray) -> np.ndarray:
    signal, gain = np.split(value, 2)
    return signal * (1 + gain / 2)


@given(
    widths=st.lists(st.sampled_from([1, 2, 3, 4, 5, 9]), min_size=2, max_size=4),
    count=st.integers(0, 3),
    seed=SEEDS,
    bias=st.booleans(),
)
@drawn
def test_policies(loops, widths, count, seed, bias):
    kernels, random, layers, size = loops(policy_kernels), np.random.default_rng(seed), [], 0
    for place, (inputs, left) in enumerate(pairwise(widths)):
        kind = (seed + place) % 5
        outputs = 2 * left if kind == policy_kernels.GAIN else left
        layers.append([inputs, outputs, size, size + inputs * outputs if bias else -1, kind])
        size += inputs * outputs + outputs * bias
    flats, x = random.standard_normal((2, size)).astype(np.float32), random.standard_normal((count, widths[0])).astype(np.float32)
    table, which = np.array(layers), random.integers(0, 2, count)
    parameters = np.empty((2, sum((i + 1) * o for i, o, *_ in layers)), np.float32)
    kernels.lay_out(table, flats, parameters)
    out = np.empty((count, widths[-1]), np.float32)
    kernels.act(table, parameters, which, x, out, table[:, :2].max())
    for row in range(count):
        value = x[row].astype(np.float64)
        for inputs, outputs, weight, shift, kind in layers:
            flat = flats[which[row]].astype(np.float64)
            value = flat[weight : weight + inputs * outputs].reshape(outputs, inputs) @ value
            value = value + flat[shift : shift + outputs] if bias else value
            value = [lambda v: v, np.tanh, lambda v: np.maximum(v, 0), lambda v: 1 / (1 + np.exp(-v)), gained][kind](value)
        np.testing.assert_allclose(out[row], value, rtol=1e-4, atol=1e-4)
    steps, sums, seen = np.zeros(4, np.int64), np.zeros((4, 2 * widths[0])), np.empty_like(x)
    mean, inverse = np.zeros(widths[0], np.float32), np.ones(widths[0], np.float32)
    episode = np.arange(count) % 4
    base, raw = np.full(widths[0], 0.5), x.astype(np.float64)
    assert kernels.meet(raw, episode, base, mean, inverse, np.float32(9), steps, sums, seen)
    np.testing.assert_array_equal(seen, (raw - base).astype(np.float32))
    assert steps.sum() == count


def numbers(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def recurrence(**changed: object) -> tuple[object, ...]:
    """Arguments of a GRU of 2 on two steps of 3 inputs without biases."""
    fitting = {
        "kind": own_recurrence.GRU, "backwards": False, "x": numbers(1, 1, 1, 2, 3), "state": numbers(1, 1, 1, 1, 2),
        "centre": numbers(30), "noise": numbers(1, 30), "columns": np.array([0, 18]), "scales": numbers(1),
        "out": numbers(1, 1, 1, 2, 2), "last": numbers(1, 1, 1, 1, 2),
    }  # fmt: skip
    return tuple((fitting | changed).values())


THREE_TO_TWO = np.array([[3, 2, 0, -1, 0, -1, 0]]), numbers(1)  # a chain of one layer, and the scale of one side


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        (row_kernels, "add_vectors", (numbers(4, 1, 5), numbers(2, 4), 1, numbers(2))),
        (row_kernels, "add_vectors", (numbers(5, 1, 5), numbers(2, 5), 1, numbers(2))),  # more rows than sides have
        (row_kernels, "add_lines", (numbers(2, 1, 3), numbers(2, 8), 3, np.zeros((2, 1), np.int64), 2, numbers(1))),
        (row_kernels, "add_lines", (numbers(3, 1, 3), numbers(2, 9), 3, np.zeros((3, 1), np.int64), 2, numbers(1))),
        (row_kernels, "normalised", (numbers(2, 3, 4), numbers(1, 4), numbers(1, 4), numbers(2), numbers(2, 3, 4))),
        (row_kernels, "normalised", (numbers(2, 3, 4), numbers(2, 4), numbers(2, 4), numbers(2), numbers(2, 4, 4))),
        (row_kernels, "projected", (numbers(2, 1, 0), numbers(2, 1, 0), 1, numbers(2, 1, 1))),
        (blas, "product", (numbers(3, 4), numbers(5, 4), numbers(3, 4))),
        (blas, "product", (numbers(4, 3).T, numbers(5, 4), numbers(3, 5))),  # addressed one by one, not in a row
        (blas, "product", (numbers(3, 4).astype(np.float64), numbers(5, 4), numbers(3, 5))),
        (blocks, "table_sums", (numbers(9), np.array([4]), np.ones((1, 1)), np.array([1]), 2, numbers(1, 4))),
        (attention, "attended", (*(numbers(1, 1, 2, 3),) * 2, numbers(1, 1, 3, 2), 1.0, False, numbers(1, 1, 2, 2))),
        (
            attention,
            "attended",
            (numbers(1, 1, 3, 2).transpose(0, 1, 3, 2), *(numbers(1, 1, 2, 3),) * 2, 1.0, False, numbers(1, 1, 2, 3)),
        ),
        (own_chain, "own_chain", (numbers(1, 1, 1, 3), numbers(6), numbers(1, 5), *THREE_TO_TWO, numbers(1, 1, 1, 2))),
        (own_chain, "own_chain", (numbers(1, 1, 1, 2), numbers(6), numbers(1, 6), *THREE_TO_TWO, numbers(1, 1, 1, 2))),
        (own_chain, "own_chain", (numbers(2, 1, 1, 3), numbers(6), numbers(1, 6), *THREE_TO_TWO, numbers(1, 1, 1, 2))),
        (own_chain, "tiled_chain", (numbers(1, 1, 8, 3), numbers(6), numbers(1, 5), *THREE_TO_TWO, numbers(1, 1, 8, 2))),
        (own_chain, "tiled_chain", (numbers(1, 1, 7, 3), numbers(6), numbers(1, 6), *THREE_TO_TWO, numbers(1, 1, 7, 2))),
        (own_chain, "activated", (numbers(5), activations.GELU, numbers(4))),
        (own_recurrence, "own_recurrence", recurrence(kind=own_recurrence.LSTM)),
        (own_recurrence, "own_recurrence", recurrence(centre=numbers(31))),
        (own_recurrence, "own_recurrence", recurrence(noise=numbers(1, 29))),
        (own_recurrence, "own_recurrence", recurrence(last=numbers(1, 1, 1, 2, 2))),
        (own_recurrence, "advance", (own_recurrence.GRU, numbers(1, 6), numbers(1, 5), numbers(1, 2), numbers(1, 2))),
        (policy_kernels, "lay_out", (np.array([[3, 2, 0, 6, 0]]), numbers(1, 8), numbers(1, 7))),
    ],
)
def test_a_shape_that_does_not_fit_is_an_error(module, name, arguments):
    with pytest.raises(AssertionError):
        getattr(module, name)(*arguments)
