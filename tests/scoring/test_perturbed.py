"""The forward pass of many members against a plain loop that builds W + sigma E_i for each of them."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from support.configs import SAMPLERS, composed, sampler_of
from support.pairwise import each_pair
from torch import Tensor, nn

from neuro_cli.core.kernels import gpu
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch, once, repeated
from neuro_cli.factory.instantiate import make
from neuro_cli.sampler import dense
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.sign_flip import FlippedPerturbation
from neuro_cli.sampler.structured import OwnWeights
from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.perturbed import PerturbedForward, Unsupported

GENERATION, SIGMA = 3, 0.3
SETTINGS = [
    *map(sampler_of, SAMPLERS),
    ("sampler=sign_flip", "sampler.sides=outputs"),
    ("sampler=sign_flip", "sampler.sides=inputs"),
    ("sampler=permutation", "sampler.sides=both", "sampler.sparsity=0.5"),
    ("sampler=permutation", "sampler.sides=outputs", "sampler.sparsity=0.1"),
    ("sampler=permutation", "sampler.sides=inputs", "sampler.sparsity=0.0625"),
    ("sampler=low_rank", "sampler.rank=3"),
]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
TOLERANCE = {
    torch.float64: (1e-9, 1e-9),
    torch.float32: (1e-5, 1e-5),
    torch.bfloat16: (0.05, 0.05),
}  # shares of the largest output


@pytest.fixture(params=SETTINGS, ids=lambda setting: "-".join(setting))
def sampler(request) -> Sampler:
    made: Sampler = make(composed(*request.param), "sampler", Sampler)
    return made


def check(
    sampler: Sampler, module: nn.Module, shape: tuple[int, ...], *, pairs: bool = True, examples: int = 1,
    directions: int = 3, dtype: torch.dtype = torch.float64, first: int = 2, shared: bool = False, device: str = "cpu",
    matters: bool = False, layout: ParameterLayout | None = None,
) -> None:  # fmt: skip
    """The batched pass equals the loop, for ``directions`` from ``first`` on with ``examples`` each."""
    layout = layout or ParameterLayout(module)
    sampler.antithetic = pairs
    there = torch.device(device)
    gpu.keep_float32(there, dtype)
    sampler.bind(Noise(7, layout.size, there, Threads(1)), 40, layout)
    module = scoring_mode(copy.deepcopy(module)).to(device, dtype)
    rows = MemberBatch([SIGMA, -SIGMA][: 1 + pairs], directions, examples)
    generator = torch.Generator().manual_seed(1)
    own = torch.randn((examples if shared else directions * examples, *shape), generator=generator).to(device, dtype)
    if len(shape) == 3:
        own = own.contiguous(memory_format=torch.channels_last)
    own = repeated(own, directions) if shared else own
    inputs = with_mark(repeated(own, len(rows.scales)))  # an unmarked one is replaced, and then nobody knows what it repeats
    with_mark(own)
    centre = layout.flatten(module.float()).to(torch.float64)
    module.to(dtype)
    with torch.no_grad():
        with PerturbedForward(module, layout, sampler.perturbation(GENERATION, first, rows, dtype)):
            made = module(inputs)
        if pairs:  # the same from the input that both sides have in common
            with PerturbedForward(module, layout, sampler.perturbation(GENERATION, first, rows, dtype)):
                shared_input = module(own)
            largest = float(made.abs().max())
            torch.testing.assert_close(shared_input, made, rtol=TOLERANCE[dtype][0], atol=TOLERANCE[dtype][1] * max(largest, 1.0))
        expected = []
        for part, batch in enumerate(inputs.split(examples)):
            scale = rows.scales[part // directions]
            eps = sampler.explicit(GENERATION, first + part % directions, torch.float64)
            candidate = copy.deepcopy(module).double()
            layout.attach(candidate, centre + scale * eps)
            expected.append(candidate(batch.double()))
        wanted = torch.cat(expected)
    rtol, atol = TOLERANCE[dtype]
    largest = float(wanted.abs().max())
    torch.testing.assert_close(made.double(), wanted, rtol=rtol, atol=atol * max(largest, 1.0))
    if matters:  # a pass without the noise would be far off
        assert (module(inputs).double() - wanted).abs().max() > 3 * atol * max(largest, 1.0)


MODULES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "linear": (nn.Linear(37, 21), (37,)),
    "linear_wide": (nn.Linear(50, 3, bias=False), (50,)),
    "linear_points": (nn.Linear(9, 34), (5, 9)),
    "linear_twice": (nn.Sequential(nn.Linear(7, 6), nn.Linear(6, 5)), (7,)),
    "conv": (nn.Conv2d(5, 34, 3, padding=1), (5, 8, 7)),
    "conv_strided": (nn.Conv2d(33, 6, (3, 2), stride=(2, 1), padding=(0, 1), dilation=(2, 3), bias=False), (33, 9, 8)),
    "conv_first": (nn.Conv2d(1, 8, 5, padding=2, stride=2), (1, 11, 11)),
    "conv_same": (nn.Conv2d(4, 8, 3, padding="same"), (4, 6, 6)),
    "grouped": (nn.Conv2d(12, 16, 3, groups=4, padding=1), (12, 5, 5)),
    "depthwise": (nn.Conv2d(10, 10, 3, groups=10, padding=1, stride=2), (10, 7, 7)),
    "depthwise_doubled": (nn.Conv2d(6, 12, 3, groups=6), (6, 7, 7)),
    "batch_norm": (nn.Sequential(nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1)), (6, 4, 4)),
    "layer_norm": (nn.Sequential(nn.LayerNorm([7]), nn.Linear(7, 5)), (7,)),
    "layer_norm_2d": (nn.Sequential(nn.LayerNorm([4, 6]), nn.Flatten(), nn.Linear(24, 5)), (4, 6)),
    "group_norm": (nn.Sequential(nn.GroupNorm(2, 6), nn.Conv2d(6, 4, 1)), (6, 4, 4)),
    "instance_norm": (nn.Sequential(nn.InstanceNorm2d(6, affine=True), nn.Conv2d(6, 4, 1)), (6, 4, 4)),
    "network": (
        nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16), nn.MaxPool2d(2),
            nn.Conv2d(16, 24, 1), nn.ReLU(), nn.Flatten(), nn.Linear(96, 40), nn.ReLU(), nn.Linear(40, 10),
        ),
        (3, 8, 8),
    ),
}  # fmt: skip


@each_pair(indirect=["sampler"], sampler=SETTINGS, kind=list(MODULES), pairs=[True, False])
def test_the_pass_of_all_members_is_the_loop_over_them(sampler, kind, pairs):
    module, shape = MODULES[kind]
    check(sampler, module, shape, pairs=pairs, examples=2, matters=True)


class Folded(nn.Module):
    """Norms of points that are folded into the batch, as OPT has its tokens."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm, self.layer = norm, nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.norm(x.flatten(0, 1))).unflatten(0, x.shape[:2])


@pytest.mark.parametrize(
    "norm", [nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.BatchNorm1d(4)], ids=lambda norm: type(norm).__name__
)
def test_norms_of_points_that_are_folded_into_the_batch(norm):
    sampler = make(composed("sampler=low_rank"), "sampler", Sampler)
    check(sampler, Folded(norm), (5, 4), pairs=False, examples=2)


def test_all_members_on_a_shared_batch(sampler):
    module, shape = MODULES["network"]
    check(sampler, module, shape, examples=3, shared=True, matters=True)


def test_layers_of_rows_that_repeat_are_computed_once_until_somebody_writes_to_them():
    rows = torch.randn(2, 5)
    twice = repeated(repeated(rows, 3), 2)
    assert once(twice) is rows
    assert once(rows) is rows
    assert torch.equal(twice, rows.repeat(6, 1))
    other = repeated(rows, 2)
    twice.view(-1)[7] += 1
    assert once(twice) is twice
    assert once(other) is rows
    rows[1] = 0
    assert once(other) is other


# float64, above, brings each sampler to each kind of layer; here each of both meets each precision
@pytest.mark.parametrize(
    ("sampler", "kind", "dtype"),
    [
        (setting, ("linear", "conv", "conv_first", "depthwise", "network")[(place + shift) % 5], dtype)
        for place, setting in enumerate(SETTINGS)
        for shift, dtype in enumerate((torch.float32, torch.bfloat16))
    ],
    indirect=["sampler"],
    ids=str,
)
@pytest.mark.parametrize("device", DEVICES)
def test_in_the_precision_of_evaluation(sampler, kind, dtype, device):
    module, shape = MODULES[kind]
    check(sampler, module, shape, dtype=dtype, examples=1 + (kind == "network"), device=device, matters=True)


@given(
    outputs=st.integers(1, 70), inputs=st.integers(1, 70), points=st.integers(0, 3), examples=st.integers(1, 3),
    directions=st.integers(1, 5), pairs=st.booleans(), bias=st.booleans(),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("name", ["sign_flip", "permutation", "low_rank", "iid"])
def test_linear_layers_of_any_shape(name, outputs, inputs, points, examples, directions, pairs, bias):
    made: Sampler = make(composed(f"sampler={name}"), "sampler", Sampler)
    shape = (points, inputs) if points else (inputs,)
    check(made, nn.Linear(inputs, outputs, bias), shape, pairs=pairs, examples=examples, directions=directions)


@given(data=st.data())
@settings(max_examples=10, deadline=None)
@pytest.mark.parametrize("name", ["sign_flip", "permutation", "low_rank", "iid"])
def test_convolutions_of_any_shape(name, data):
    draw = data.draw
    groups, kind = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([nn.Conv1d, nn.Conv2d, nn.Conv3d]))
    dims = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}[kind]
    inputs, outputs = groups * draw(st.integers(1, 12)), groups * draw(st.integers(1, 12))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    kernel, options = numbers(1, 4), {"stride": numbers(1, 3), "padding": numbers(0, 2), "dilation": numbers(1, 2)}
    size = tuple(gap * (side - 1) + 1 + draw(st.integers(0, 4)) for side, gap in zip(kernel, options["dilation"], strict=True))
    made: Sampler = make(composed(f"sampler={name}", f"sampler.sides={draw(st.sampled_from(['both', 'outputs']))}"
                                  if name in ("sign_flip", "permutation") else "seed=1"), "sampler", Sampler)  # fmt: skip
    module = kind(inputs, outputs, kernel, groups=groups, bias=draw(st.booleans()), **options)
    pairs, examples = draw(st.booleans()), draw(st.integers(1, 2))
    check(made, module, (inputs, *size), pairs=pairs, examples=examples)
    if name == "iid":  # compiled loops, some directions at a time
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dense, "ENOUGH", 1)
            patch.setattr(dense, "PATCHES", draw(st.sampled_from([1, 2**20])))
            layout = ParameterLayout(module, channels_last=draw(st.booleans()))
            check(made, module, (inputs, *size), pairs=pairs, examples=examples, dtype=torch.float32, layout=layout)


OWN_WEIGHTS = {
    "bias": nn.Conv2d(12, 7, (2, 3), stride=(1, 2), padding=(1, 0), dilation=(3, 1)),
    "no_bias": nn.Conv2d(9, 4, 3, bias=False),
}


@each_pair(
    indirect=["sampler"], sampler=SETTINGS, kind=list(OWN_WEIGHTS), dtype=[torch.float32, torch.float64], pairs=[True, False],
    channels_last=[True, False],
)  # fmt: skip
def test_convolutions_with_the_members_own_weights(sampler, kind, dtype, pairs, channels_last, monkeypatch):
    sampler.own_weights = OwnWeights(pixels=1, products=1)
    module = OWN_WEIGHTS[kind]
    if dtype == torch.float32:
        monkeypatch.delattr(FlippedPerturbation, "apply")  # the other way
    layout = ParameterLayout(module, channels_last)
    check(sampler, module, (module.in_channels, 9, 8), pairs=pairs, examples=2, dtype=dtype, matters=True, layout=layout)


class Reversed(nn.Module):
    """Linear layers of folded points with a weight (inputs, outputs), as GPT-2 has them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 7) / 3), nn.Parameter(torch.linspace(-1, 1, 7))
        self.out = nn.Parameter(torch.randn(7, 5) / 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.addmm(self.bias, x.flatten(0, 1), self.weight).tanh()
        return torch.addmm(torch.zeros(5, dtype=x.dtype), hidden, self.out).unflatten(0, (-1, x.shape[1]))


@each_pair(indirect=["sampler"], sampler=SETTINGS, pairs=[True, False])
def test_linear_layers_with_their_weight_the_other_way_round(sampler, pairs):
    check(sampler, Reversed(), (1, 4), pairs=pairs, examples=2, matters=True)
    check(sampler, Reversed(), (3, 4), pairs=False, examples=2)


class Computed(nn.Module):
    """Norms as families of transformers have them, whose scale is computed from the parameter; some of points in the batch."""

    def __init__(self, scale: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.layer, self.scale = nn.Parameter(torch.linspace(-0.5, 0.5, 4)), nn.Linear(4, 4), scale

    def forward(self, x: Tensor) -> Tensor:
        x = F.layer_norm(self.layer(self._norm(x)), (4,), self.scale(self.weight), None)
        return self.layer(self._norm(x.flatten(0, 1)).unflatten(0, x.shape[:2]))

    def _norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.scale(self.weight)


SCALES: dict[str, Callable[[Tensor], Tensor]] = {
    "gemma": lambda weight: 1.0 + weight.float().to(weight.dtype),
    "nemotron": lambda weight: weight + 1,
    "by name": lambda weight: torch.add(input=weight, other=2, alpha=0.5),
    "decay": lambda weight: -torch.exp(2.0 * weight / 3),
    "two of one kind": lambda weight: (1.5 - weight) * 2.0,
}


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("pairs", [True, False])
def test_vectors_that_are_computed_from_parameters(kind, pairs):
    sampler = make(composed("sampler=low_rank"), "sampler", Sampler)
    check(sampler, Computed(SCALES[kind]), (5, 4), pairs=pairs, examples=2, matters=True)


class Uses(nn.Module):
    """Module that uses a vector computed from a parameter."""

    def __init__(self, use: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.use = nn.Parameter(torch.ones(8)), use

    def forward(self, x: Tensor) -> Tensor:
        return self.use(x, 1 + self.weight)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda x, w: F.linear(x, torch.eye(8), w), "linear gets what was computed from a parameter"),
        (lambda x, w: x * w.softmax(0), "softmax uses a parameter"),
        (lambda x, w: x * w.add_(1), "add_ uses a parameter"),
        (lambda x, w: x * torch.stack([w, w])[0], "stack uses a parameter"),
        (lambda x, w: x[:, :, :, None] * w, "a product with a parameter of shape"),
        (lambda x, w: x * w + torch.histc(x, 8), "add gets numbers of rows of all members"),
        (lambda x, w: x * w * torch.histc(x, 4).cumsum(0).sum(), "sum gets numbers of rows of all members"),
    ],
)
def test_other_uses_of_what_was_computed_from_a_parameter_are_refused(use, reason):
    module = Uses(use)
    layout, sampler = ParameterLayout(module), make(composed("sampler=low_rank"), "sampler", Sampler)
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 8, layout)
    perturbation = sampler.perturbation(0, 0, MemberBatch([0.1], 4, 1), torch.float32)
    with pytest.raises(Unsupported, match=reason), torch.no_grad(), PerturbedForward(module, layout, perturbation):
        module(torch.randn(4, 5, 8))


@pytest.mark.parametrize(
    "module",
    [nn.MultiheadAttention(8, 2, batch_first=True), nn.GRU(8, 4, batch_first=True), nn.PReLU(), nn.Bilinear(8, 8, 3)],
    ids=lambda module: type(module).__name__,
)
def test_other_uses_of_a_parameter_are_refused(module):
    sampler: Sampler = make(composed("sampler=low_rank"), "sampler", Sampler)
    layout = ParameterLayout(module)
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 8, layout)
    perturbation = sampler.perturbation(0, 0, MemberBatch([0.1], 4, 1), torch.float32)
    x = torch.randn(4, 5, 8)
    inputs: tuple[Tensor, ...] = {"MultiheadAttention": (x, x, x), "Bilinear": (x, x)}.get(type(module).__name__, (x,))
    with pytest.raises(Unsupported), torch.no_grad(), PerturbedForward(module, layout, perturbation):
        module(*inputs)
