"""Runs every Triton kernel and its definition on the CPU; prints {case: largest difference} as JSON.

python triton_program.py cpu|cuda [few]       (cpu: with TRITON_INTERPRET=1; few: fewer layouts and convolutions, nothing drawn)

In the interpreter every load and store has to lie in a tensor that the kernel was given; drawn shapes, sizes 0 and 1 among them,
kernels wider than the map and places of 64 bits come after the cases.
"""

import json
import sys
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from draws import close
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core import philox
from neuro_cli.core.kernels import triton_layers, triton_noise, triton_rows, triton_sums
from neuro_cli.core.rows import Geometry, MemberBatch, out_sizes, random_signs

SCALES, DIRECTIONS, EXAMPLES = (0.5, -0.25), 2, 2
COUNT = len(SCALES) * DIRECTIONS * EXAMPLES
ROWS = (DIRECTIONS, EXAMPLES)
FILTERED = ["images", "channels_last"]  # layouts of what is filtered
LAYOUTS = {"linear": (37,), "points": (5, 37), "images": (6, 5, 7), "channels_last": (6, 5, 7)}


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def laid(kind: str, x: Tensor, device: str) -> Tensor:
    """``x`` on the device in the memory order of the case."""
    x = x.to(device)
    return x.contiguous(memory_format=torch.channels_last) if kind == "channels_last" else x


def noise(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Bits as integers: any difference counts."""
    cases = [((1, 0), 3, (0, 5, 7), 0, 0, 2500), ((0xFFFFFFFF, 0x80000001), 2**32 - 1, (2**32 - 1,), 8, 1030, 1040)]
    for key, generation, directions, stream, start, stop in cases:
        words = philox.words(key, generation, torch.tensor(directions), stream, start, stop)
        where = (key, generation, torch.tensor(directions, device=device), stream, start, stop)
        yield f"words {start}", triton_noise.draw(*where, law=False).to(torch.int64), words
        made = triton_noise.draw(*where, law=True)
        normals = philox.normals(words)
        yield f"normals {start}", made.view(torch.int32).long(), normals.view(torch.int32).long()
        made = triton_noise.draw(*where, law=True, dtype=torch.float16)
        yield f"normals half {start}", made.view(torch.int16).long(), normals.half().view(torch.int16).long()
        weights = torch.linspace(-1, 2, len(directions), dtype=torch.float64)
        for square, moment in ((False, normals.double()), (True, normals.double() ** 2 - 1)):
            yield f"combine {start}", triton_noise.combine(*where, weights.to(device), square), weights @ moment


def row_operations(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    rows = MemberBatch(SCALES, DIRECTIONS, EXAMPLES)
    for kind, shape in LAYOUTS.items():
        channel = 1 if len(shape) == 3 else -1
        channels = shape[0] if len(shape) == 3 else shape[-1]
        x, y = normal(COUNT, *shape), normal(COUNT, *shape) + 1
        words = torch.randint(0, 2**32, (DIRECTIONS, 2), generator=torch.Generator().manual_seed(1)).to(torch.uint32)
        order = torch.stack([torch.randperm(channels)[: channels - 2] for _ in range(DIRECTIONS)]).to(torch.int32)
        there, target = laid(kind, x, device), lambda y=y, kind=kind: laid(kind, y.clone(), device)
        yield f"flip {kind}", triton_rows.flip(there, words.to(device), ROWS, channel), rows.flip(x, words, channel)
        made = triton_rows.add_flipped(target(), there, words.to(device), SCALES, ROWS, channel)
        yield f"add_flipped {kind}", made, rows.add_flipped(y.clone(), x, words, channel)
        part = rows.gather(x, order, channel)
        yield f"gather {kind}", triton_rows.gather(there, order.to(device), ROWS, channel), part
        made = triton_rows.add_scattered(target(), laid(kind, part, device), order.to(device), SCALES, ROWS, channel)
        yield f"add_scattered {kind}", made, rows.add_scattered(y.clone(), part, order, channel)
        for rank, groups in ((1, 1), (3, 1), *(((2, 3),) if len(shape) == 3 else ())):
            maps_shape = [COUNT, *shape]
            maps_shape[channel] = groups * rank
            maps, factors = normal(*maps_shape), normal(DIRECTIONS, rank, channels)
            there_too = (laid(kind, maps, device), factors.to(device), SCALES, ROWS, channel, groups)
            wanted = rows.add_outer(y.double(), maps.double(), factors.double(), channel, groups)
            yield f"add_outer {kind} {rank} {groups}", triton_rows.add_outer(target(), *there_too), wanted


CONVOLUTIONS = [  # channels, groups, rank, kernel, geometry
    (5, 1, 2, (3, 3), Geometry(padding=(1, 1))),
    (1, 1, 1, (5, 5), Geometry((2, 2), (2, 2))),
    (33, 1, 1, (3, 2), Geometry((2, 1), (0, 1), (2, 3))),
    (6, 3, 2, (3, 3), Geometry((2, 2), padding=(1, 1), groups=3)),
]


def projections(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    rows = MemberBatch(SCALES, DIRECTIONS, EXAMPLES)
    for points, channels, rank in ((1, 1300, 1), (1, 50, 3), (20, 37, 2)):
        x, filters = normal(COUNT, points, channels), normal(DIRECTIONS, rank, channels)
        made = triton_rows.projected(x.to(device), filters.to(device), ROWS)
        yield f"projected {points} {channels}", made, rows.projected(x.double(), filters.double())
    for channels, groups, rank, kernel, geometry in CONVOLUTIONS:
        x, filters = normal(COUNT, channels, 7, 9), normal(DIRECTIONS, rank, channels // groups, *kernel)
        wanted = rows.filtered(x.double(), filters.double(), geometry)
        for kind in FILTERED if channels < 33 else FILTERED[-1:]:
            made = triton_rows.filtered(laid(kind, x, device), filters.to(device), ROWS, geometry)
            yield f"filtered {kind} {channels} {geometry.groups} {geometry.stride}", made, wanted


def placed(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Sums of a matrix: each direction places a part of its rows and columns."""
    shared, weights = normal(9, 300), torch.tensor([0.5, -2.0, 1.25], dtype=torch.float64)
    rows = torch.stack([torch.randperm(14)[:9] for _ in range(3)]).to(torch.int32)
    columns = torch.stack([torch.randperm(310)[:300] for _ in range(3)]).to(torch.int32)
    for square in (False, True):
        wanted = torch.zeros(14, 310, dtype=torch.float64)
        for order, places, weight in zip(rows.long(), columns.long(), weights, strict=True):
            wanted[order[:, None], places] += weight * shared.double() ** (1 + square)
        where = (shared.to(device), rows.to(device), columns.to(device), weights.to(device))
        yield f"placed_sum {square}", triton_sums.placed_sum(*where, (2, 13, 14, 310), square), wanted[2:13]


def of_words(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Signs with weights, and weights of those that put a thing somewhere."""
    words = torch.randint(0, 2**32, (70, 3), generator=torch.Generator().manual_seed(2)).to(torch.uint32)
    weights = normal(70)
    made = triton_sums.weighted_signs(words.to(device)[:, 1:], 50, weights.to(device))
    yield "weighted_signs", made, random_signs(words[:, 1:], 50, torch.float32) * weights[:, None]
    index = torch.stack([torch.randperm(40)[:9] for _ in range(70)]).to(torch.int32)
    into, wanted = normal(9, 40), normal(9, 40).double()
    wanted.index_put_((torch.arange(9).expand(70, 9), index.long()), weights.double()[:, None].expand(70, 9), accumulate=True)
    there = into.to(device)
    triton_sums.count_places(index.to(device), weights.to(device), there)
    yield "count_places", there, wanted


def one_by_one(
    x: Tensor, weight: Tensor, factors: tuple[Tensor, Tensor] | None, bias: Tensor, shift: Tensor, geometry: Geometry | None
) -> Tensor:
    """Outputs of every member by itself, in float64; a ``weight`` for each or for all."""
    x = x.double() if len(x) == COUNT else torch.cat([x.double()] * 2)
    own = weight.dim() > (2 if geometry is None else 4)
    made = []
    for member, rows in enumerate(x.split(EXAMPLES)):
        scale, direction = SCALES[member // DIRECTIONS], member % DIRECTIONS
        mine = (weight[member] if own else weight).double()
        if factors is not None:
            step = factors[0][direction].double().T @ factors[1][direction].double()
            taps = mine.shape[2:]
            mine = mine + scale * (step if geometry is None else step.view(len(mine), *taps, -1).movedim(-1, 1))
        both = bias.double() + scale * shift[direction].double()
        options = () if geometry is None else (geometry.stride, geometry.padding, geometry.dilation)
        made.append(F.linear(rows, mine, both) if geometry is None else F.conv2d(rows, mine, both, *options))
    return torch.cat(made)


def layers(device: str) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Layers with the members' weights: kept ones, and the centre's with outer products."""
    geometries = (
        (3, 20, (3, 3), Geometry(padding=(1, 1))),
        (18, 7, (5, 2), Geometry((2, 1), (2, 0), (1, 2))),
        (40, 70, (), None),
    )
    for inputs, outputs, kernel, geometry in geometries:
        shape = (5, inputs) if geometry is None else (inputs, 7, 6)
        for rank, rows in ((0, COUNT), (2, COUNT // 2)) if inputs == 3 else ((0, COUNT // 2), (2, COUNT)):
            x, bias, shift = normal(rows, *shape), normal(outputs), normal(DIRECTIONS, outputs)
            members = () if rank else (len(SCALES) * DIRECTIONS,)
            weight = normal(*members, outputs, *kernel, inputs)  # the inputs of a tap side by side
            weight = weight.movedim(-1, len(members) + 1) if geometry else weight
            width = weight[0].numel() if rank else 0
            factors = (normal(DIRECTIONS, rank, outputs), normal(DIRECTIONS, rank, width)) if rank else None
            there = None if factors is None else (factors[0].to(device), factors[1].to(device))
            x = laid("channels_last", x, "cpu") if geometry else x
            given = (x.to(device), weight.to(device), there, bias.to(device), shift.to(device))
            made = triton_layers.layer(*given, SCALES, ROWS, geometry, (1, inputs))
            yield f"layer {inputs} {rank} {rows}", made / 10, one_by_one(x, weight, factors, bias, shift, geometry) / 10
            if rank and inputs == 3:  # a weight in the order of its shape, which is not that of its noise
                made = triton_layers.layer(given[0], given[1].contiguous(), *given[2:], SCALES, ROWS, geometry, (1, inputs))
                yield f"layer ordered {inputs}", made / 10, one_by_one(x, weight, factors, bias, shift, geometry) / 10
    for window, stride in (((2, 2), (2, 2)), ((3, 2), (1, 2))):
        x = normal(COUNT, 5, 7, 6)
        x[1, 2, 3, 3] = float("nan")
        wanted = F.max_pool2d(x, window, stride)
        for kind in ("images", "channels_last"):
            made = triton_layers.pooled(laid(kind, x, device), window, stride)
            yield f"pooled {kind}", made.nan_to_num(99.0), wanted.nan_to_num(99.0)
    maps, factors, bias, shift = normal(COUNT, 3, 2), normal(DIRECTIONS, 2, 1100), normal(1100), normal(DIRECTIONS, 1100)
    made = triton_layers.spread(*(t.to(device) for t in (maps, factors, bias, shift)), SCALES, ROWS)
    rows = MemberBatch(SCALES, DIRECTIONS, EXAMPLES)
    wanted = rows.add_outer((bias.double() + torch.zeros(COUNT, 3, 1100)), maps.double(), factors.double(), -1)
    yield "spread", made, rows.add_vectors(wanted, shift.double(), -1)


def watch() -> None:
    """Let the interpreter refuse what lies outside of a kernel's tensors."""
    from triton.runtime import interpreter

    spans: list[tuple[int, int]] = []
    take, builder = interpreter.GridExecutor._init_args_hst, interpreter.InterpreterBuilder
    load, store = builder.create_masked_load, builder.create_masked_store

    def taken(self, args, kwargs):
        found = take(self, args, kwargs)
        tensors = [part for part in (*found[0], *found[1].values()) if isinstance(part, Tensor) and part.numel()]
        reach = [sum((size - 1) * step for size, step in zip(part.shape, part.stride(), strict=True)) + 1 for part in tensors]
        spans[:] = [
            (part.data_ptr(), part.data_ptr() + part.itemsize * count) for part, count in zip(tensors, reach, strict=True)
        ]
        return found

    def inside(pointers, mask) -> None:
        places, size = pointers.data[mask.data], pointers.get_element_ty().primitive_bitwidth // 8
        known = np.zeros(places.shape, bool)
        for low, high in spans:
            known |= (places >= low) & (places + size <= high)
        assert known.all(), "a place outside of all tensors"

    def loaded(self, pointers, mask, *rest):
        inside(pointers, mask)
        return load(self, pointers, mask, *rest)

    def stored(self, pointers, value, mask, *rest):
        inside(pointers, mask)
        return store(self, pointers, value, mask, *rest)

    interpreter.GridExecutor._init_args_hst = taken
    builder.create_masked_load, builder.create_masked_store = loaded, stored


FEW = st.integers(1, 3)
MEMBERS = {"sides": st.integers(1, 2), "directions": st.integers(1, 3), "examples": st.integers(1, 2), "last": st.booleans()}


@given(
    channels=st.sampled_from([1, 2, 3, 33]), groups=FEW, size=st.tuples(st.integers(0, 3), FEW), rank=st.integers(1, 2), **MEMBERS
)
def drawn_rows(channels, groups, size, rank, sides, directions, examples, last) -> None:
    members, given_rows = MemberBatch(SCALES[:sides], directions, examples), (directions, examples)
    kind, scales, channels = "channels_last" if last else "images", members.scales, channels * groups
    x, y = normal(members.count, channels, *size), normal(members.count, channels, *size)
    maps, factors = normal(members.count, groups * rank, *size), normal(directions, rank, channels)
    words = torch.randint(0, 2**32, (directions, -(-channels // 32))).to(torch.uint32)
    order = torch.stack([torch.randperm(channels)[: -(-channels // 2)] for _ in range(directions)]).to(torch.int32)
    there, part = laid(kind, x, "cpu"), members.gather(x, order, 1)
    close(triton_rows.flip(there, words, given_rows, 1), members.flip(x, words, 1))
    close(triton_rows.gather(there, order, given_rows, 1), part)
    for made, wanted in (
        (
            lambda y: triton_rows.add_flipped(y, there, words, scales, given_rows, 1),
            lambda y: members.add_flipped(y, x, words, 1),
        ),
        (
            lambda y: triton_rows.add_scattered(y, laid(kind, part, "cpu"), order, scales, given_rows, 1),
            lambda y: members.add_scattered(y, part, order, 1),
        ),
        (
            lambda y: triton_rows.add_outer(y, laid(kind, maps, "cpu"), factors, scales, given_rows, 1, groups),
            lambda y: members.add_outer(y, maps, factors, 1, groups),
        ),
    ):
        close(made(laid(kind, y.clone(), "cpu")), wanted(y.clone()))
    flat, filters = normal(members.count, size[0], channels), normal(directions, rank, channels)
    close(triton_rows.projected(flat, filters, given_rows), members.projected(flat.double(), filters.double()))


@given(
    inner=FEW, groups=FEW, rank=st.integers(1, 2), size=st.tuples(FEW, FEW), kernel=st.tuples(FEW, st.integers(1, 5)),
    stride=st.tuples(FEW, FEW), padding=st.tuples(st.integers(0, 3), st.integers(0, 6)), gap=st.tuples(FEW, FEW), **MEMBERS,
)  # fmt: skip
def drawn_filters(inner, groups, rank, size, kernel, stride, padding, gap, sides, directions, examples, last) -> None:
    members, geometry = MemberBatch(SCALES[:sides], directions, examples), Geometry(stride, padding, gap, groups)
    assume(min(out_sizes(size, kernel, geometry)) > 0)
    x, filters = normal(members.count, inner * groups, *size), normal(directions, rank, inner, *kernel)
    there = laid("channels_last" if last else "images", x, "cpu")
    wanted = members._filtered_by_torch(x.double(), filters.double(), geometry)
    close(triton_rows.filtered(there, filters, (directions, examples), geometry), wanted)
    if groups == 1 and sides == 2:  # the members' own weights
        outputs = 2 + rank
        weight, bias, shift = normal(sides * directions, outputs, inner, *kernel), normal(outputs), normal(directions, outputs)
        made = triton_layers.layer(there, weight, None, bias, shift, SCALES, (directions, examples), geometry)
        for member, part in enumerate(x.split(examples)):
            own = bias + SCALES[member // directions] * shift[member % directions]
            plain = F.conv2d(part, weight[member], own, stride, padding, gap)
            close(made[member * examples : (member + 1) * examples], plain)
    window = (min(kernel[0], size[0]), min(kernel[1], size[1]))
    close(triton_layers.pooled(there, window, stride), F.max_pool2d(x, window, stride))
    maps, factors = normal(members.count, size[0], rank), normal(directions, rank, inner)
    wanted = members.add_outer(torch.zeros(members.count, size[0], inner), maps, factors, -1)
    close(triton_layers.spread(maps, factors, None, None, members.scales, (directions, examples)), wanted)


@given(
    directions=st.integers(0, 3),
    things=FEW,
    places=st.sampled_from([1, 2, 33]),
    first=st.integers(0, 1),
    start=st.integers(0, 1030),
)
def drawn_sums(directions, things, places, first, start) -> None:
    things = min(things, places)
    index = torch.stack([torch.randperm(places)[:things] for _ in range(directions + 1)]).to(torch.int32)[:directions]
    weights, into = normal(directions), normal(things, places)
    wanted = into.double()
    wanted.index_put_(
        (torch.arange(things).expand_as(index), index.long()), weights.double()[:, None].expand_as(index), accumulate=True
    )
    triton_sums.count_places(index, weights, into)
    close(into, wanted)
    words = torch.randint(0, 2**32, (directions, 1 + -(-places // 32))).to(torch.uint32)[:, 1:]
    close(triton_sums.weighted_signs(words, places, weights), random_signs(words, places, torch.float32) * weights[:, None])
    shared, wanted = normal(things, places), torch.zeros(things + 1, places, dtype=torch.float64)
    rows = torch.stack([torch.randperm(things + 1)[:things] for _ in range(directions + 1)]).to(torch.int32)[:directions]
    columns = torch.stack([torch.randperm(places) for _ in range(directions + 1)]).to(torch.int32)[:directions]
    for order, column, weight in zip(rows.long(), columns.long(), weights.double(), strict=True):
        wanted[order[:, None], column] += weight * shared.double()
    if directions:
        target = (first, things + 1, things + 1, places)
        close(triton_sums.placed_sum(shared, rows, columns, weights.double(), target, False), wanted[first:])
        which = torch.arange(directions)
        words = philox.words((1, 0), 2, which, 3, start, start + places)
        assert torch.equal(triton_noise.draw((1, 0), 2, which, 3, start, start + places, law=True), philox.normals(words))
        made = triton_noise.combine((1, 0), 2, which, 3, start, start + places, weights.double(), False)
        close(made, weights.double() @ philox.normals(words).double())


def draw_shapes(count: int) -> None:
    """Run the drawn cases with places of 32 bits, and of 64."""
    few = settings(max_examples=count, deadline=None, database=None, derandomize=True)
    drawn = [few(case) for case in (drawn_rows, drawn_filters, drawn_sums)]
    for narrow in (triton_noise.NARROW, 0):
        triton_rows.NARROW = triton_noise.NARROW = narrow
        for case in drawn:
            case()


def main(device: str) -> None:
    found = {}
    for family in (noise, row_operations, projections, placed, of_words, layers):
        for name, made, wanted in family(device):
            assert made.shape == wanted.shape, name
            found[name] = float((made.cpu().double() - wanted.double()).abs().max())
    print(json.dumps(found))


if __name__ == "__main__":
    for kind in ("points", "images") if sys.argv[2:] == ["few"] else ():
        LAYOUTS.pop(kind)
    if sys.argv[2:] == ["few"]:
        FILTERED.pop(0)
        del CONVOLUTIONS[:-1]
    if sys.argv[1] == "cpu":
        watch()
    main(sys.argv[1])
    if sys.argv[1] == "cpu" and sys.argv[2:] != ["few"]:
        draw_shapes(60)
