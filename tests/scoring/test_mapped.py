"""The pass that is mapped over members, against a loop that gives torch's functional call each member's parameters."""

import copy
import math
from collections.abc import Callable
from functools import cache
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from support.configs import composed
from support.pairwise import each_pair
from torch import Tensor, nn
from torchvision.models import VisionTransformer

from neuro_cli.core import rows as core_rows
from neuro_cli.core.kernels.attention import attended
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rows import MemberBatch
from neuro_cli.factory.instantiate import make
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.model.int8_mlp import Int8MLP
from neuro_cli.model.spiking import SpikingMLP
from neuro_cli.model.ternary_cnn import TernaryCNN
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.operators import Unsupported

SIGMA, DIRECTIONS, EXAMPLES, GENERATION, FIRST = 0.3, 3, 2, 3, 2
SAMPLERS = {
    "sign_flip": ("sampler=sign_flip",),
    "sign_flip_outputs": ("sampler=sign_flip", "sampler.sides=outputs"),
    "permutation": ("sampler=permutation",),
    "sparse_both": ("sampler=permutation", "sampler.sides=both", "sampler.sparsity=0.5"),
    "sparse_outputs": ("sampler=permutation", "sampler.sides=outputs", "sampler.sparsity=0.3"),
    "sparse_inputs": ("sampler=permutation", "sampler.sides=inputs", "sampler.sparsity=0.3"),
    "low_rank": ("sampler=low_rank", "sampler.rank=2"),
    "iid": ("sampler=iid",),
}


@pytest.fixture
def sampler(request) -> Sampler:
    return make(composed(*SAMPLERS[request.param]), "sampler", Sampler)


def mapped(
    sampler: Sampler, module: nn.Module, pairs: bool = True
) -> tuple[MappedForward, nn.Module, ParameterLayout, MemberBatch]:
    """The pass, the module in float64 that it serves, and what a loop needs."""
    layout = ParameterLayout(module)
    sampler.antithetic = pairs
    sampler.bind(Noise(7, layout.size, torch.device("cpu"), Threads(1)), 40, layout)
    rows = MemberBatch([SIGMA, -SIGMA][: 1 + pairs], DIRECTIONS, EXAMPLES)
    module = scoring_mode(copy.deepcopy(module)).double()
    return MappedForward(module, layout, sampler.perturbation(GENERATION, FIRST, rows, torch.float64)), module, layout, rows


def check(sampler: Sampler, module: nn.Module, inputs: Tensor, pairs: bool = True) -> None:
    """The mapped pass equals the loop; every member has examples of its own, both sides of a direction the same."""
    forward, module, layout, rows = mapped(sampler, module, pairs)
    centre = layout.flatten(module).double()
    with torch.no_grad():
        with forward:
            made = module(inputs)
        wanted = []
        for scale in rows.scales:
            for direction, batch in enumerate(inputs.split(EXAMPLES)):
                eps = sampler.explicit(GENERATION, FIRST + direction, torch.float64)
                views = layout.views(centre + scale * eps)
                parameters = {place.name: view for place, view in zip(layout.places, views, strict=True)}
                wanted.append(torch.func.functional_call(copy.deepcopy(module), parameters, (batch,)))
        expected = torch.cat(wanted)
        plain = torch.cat([module(inputs)] * len(rows.scales)) if made.shape == expected.shape else expected
    assert "forward" not in vars(module)
    largest = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(made, expected, rtol=1e-9, atol=1e-9 * largest)
    assert (plain - expected).abs().max() > 1e-6  # the noise matters


class Use(nn.Module):
    """Parameters of its own, used by a function."""

    def __init__(self, function, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


class Attention(nn.Module):
    def __init__(self, *, weights: bool = False, mask: str = "", other: int = 0, **options) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, **options)
        nn.init.normal_(self.inner.in_proj_bias)
        self.weights, self.mask, self.first = weights, mask, options.get("batch_first", False)
        self.other = nn.Linear(8, other) if other else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if self.mask == "causal":
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        else:
            mask = x.new_ones(x.shape[1], x.shape[1]).triu(1) if self.mask == "float" else None
        padding = x.mean(-1) > 0.2 if self.mask == "padding" else None
        query = x if self.first else x.transpose(0, 1)
        key = self.other(query)
        made, weights = self.inner(query, key, key, need_weights=self.weights, attn_mask=mask, key_padding_mask=padding)
        made = made if self.first else made.transpose(0, 1)
        return torch.cat([made.flatten(1), weights.flatten(1)], 1) if self.weights else made


class Recurrent(nn.Module):
    """Outputs and last states of a recurrent network."""

    def __init__(self, kind: type[nn.RNNBase], **options) -> None:
        super().__init__()
        self.inner, self.first = kind(8, 4, **options), options.get("batch_first", False)
        self.head = nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        outputs, states = self.inner(x if self.first else x.transpose(0, 1))
        outputs = outputs if self.first else outputs.transpose(0, 1)
        states = [part.transpose(0, 1).flatten(1) for part in (states if isinstance(states, tuple) else (states,))]
        return torch.cat([self.head(outputs).flatten(1), *states], 1)


class Cells(nn.Module):
    """A loop over steps that writes into a tensor without members."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell = kind(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        state, made = None, torch.zeros(len(x), x.shape[1], 4, dtype=x.dtype)
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            made[:, step] = state[0] if isinstance(state, tuple) else state
        return made


class Characters(nn.Module):
    """A network of characters whose embedding is its head too."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(5, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        return self.head(self.layer(x, src_mask=nn.Transformer.generate_square_subsequent_mask(words.shape[1])))


def vision_transformer() -> nn.Module:
    module = VisionTransformer(8, 4, 1, 2, 8, 12, num_classes=3)
    nn.init.normal_(module.heads.head.weight)  # zero at first
    return module


def text_network() -> nn.Module:
    module = CharGPT(outputs=11, context=6, width=8, depth=2, heads=2)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


torch.manual_seed(0)
POINTS = torch.randn(6, 5, 8).double()
VECTORS = torch.randn(6, 8).double()
LINES, IMAGES, VOLUMES = torch.randn(6, 6, 9).double(), torch.randn(6, 6, 7, 5).double(), torch.randn(6, 4, 4, 5, 3).double()
WORDS = torch.randint(0, 11, (6, 5))
LAYER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")

CASES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "linear": lambda: (nn.Linear(8, 5), POINTS),
    "matmul": lambda: (Use(lambda own, x: x @ own.w + own.b, w=(8, 5), b=(5,)), POINTS),
    "matmul_transposed": lambda: (Use(lambda own, x: torch.matmul(x, own.w.T), w=(5, 8)), POINTS),
    "matmul_left": lambda: (Use(lambda own, x: own.w @ x, w=(4, 5)), POINTS),
    "addmm": lambda: (Use(lambda own, x: torch.addmm(own.b, x, own.w), w=(8, 5), b=(5,)), VECTORS),
    "chunks": lambda: (
        Use(
            lambda own, x: torch.cat([F.linear(x, *part) for part in zip(own.w.chunk(3), own.b.chunk(3), strict=True)], -1),
            w=(12, 8),
            b=(12,),
        ),
        POINTS,
    ),
    "columns": lambda: (Use(lambda own, x: F.linear(x[..., :3], own.w[:, 2:5]), w=(6, 8)), POINTS),
    "piece_transposed": lambda: (Use(lambda own, x: x @ own.w[1:9, 2:5], w=(11, 8)), POINTS),
    "one_row": lambda: (
        Use(lambda own, x: torch.cat([F.linear(x, own.w[row : row + 1]) for row in range(3)], -1), w=(3, 8)),
        POINTS,
    ),
    "every_second_row": lambda: (Use(lambda own, x: F.linear(x, own.w[::2]), w=(6, 8)), POINTS),
    "reshaped": lambda: (Use(lambda own, x: F.linear(x, own.w.view(3, 8), own.b[1:4]), w=(3, 2, 4), b=(5,)), POINTS),
    "one_tap": lambda: (Use(lambda own, x: F.linear(x, own.w.flatten(1)), w=(3, 8, 1, 1)), POINTS),
    "einsum": lambda: (Use(lambda own, x: torch.einsum("bti,oi->bot", x, own.w), w=(5, 8)), POINTS),
    "einsum_left": lambda: (Use(lambda own, x: torch.einsum("io,bti->bto", own.w, x), w=(8, 5)), POINTS),
    "einsum_heads": lambda: (Use(lambda own, x: torch.einsum("btd,dhe->bthe", x, own.w), w=(8, 2, 3)), POINTS),
    "einsum_no_product": lambda: (Use(lambda own, x: torch.einsum("it,bti->bi", own.w, x), w=(8, 5)), POINTS),
    "bare": lambda: (
        Use(
            lambda own, x: torch.cat([own.c.expand(len(x), -1, -1), x], 1) * own.s + own.p[:, :6], c=(1, 1, 8), p=(1, 7, 8), s=()
        ),
        POINTS,
    ),
    "bare_image": lambda: (Use(lambda own, x: x + own.p, p=(1, 6, 7, 5)), IMAGES),
    "made_weight": lambda: (Use(lambda own, x: F.linear(x, own.w / own.w.norm(dim=1, keepdim=True)), w=(5, 8)), POINTS),
    "weight_norm": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(8, 5)), POINTS),
    "product_of_weights": lambda: (Use(lambda own, x: x @ (own.a @ own.b), a=(8, 2), b=(2, 5)), POINTS),
    "prelu": lambda: (nn.PReLU(8), VECTORS),
    "bilinear": lambda: (Use(lambda own, x: F.bilinear(x, x, own.w, own.b), w=(3, 8, 8), b=(3,)), VECTORS),
    "mixing": lambda: (Use(lambda own, x: F.linear(x, own.w) - F.linear(x, own.w).mean(0), w=(5, 8)), VECTORS),
    "embedding": lambda: (nn.Embedding(11, 4, padding_idx=0), WORDS),
    "indexed": lambda: (Use(lambda own, x: own.w[x], w=(11, 4)), WORDS),
    "bag_mean": lambda: (nn.EmbeddingBag(11, 4), WORDS),
    "bag_max": lambda: (nn.EmbeddingBag(11, 4, mode="max"), WORDS),
    "characters": lambda: (Characters(), WORDS),
    "layer_norm": lambda: (nn.LayerNorm([5, 8]), POINTS),
    "group_norm": lambda: (nn.GroupNorm(2, 6), IMAGES),
    "instance_norm": lambda: (nn.InstanceNorm2d(6, affine=True), IMAGES),
    "rms_norm": lambda: (nn.RMSNorm(8), POINTS),
    "batch_norm": lambda: (nn.BatchNorm2d(6), IMAGES),
    "conv1d": lambda: (nn.Conv1d(6, 4, 3, padding=1, stride=2), LINES),
    "conv1d_groups": lambda: (nn.Conv1d(6, 4, 3, groups=2, padding="same"), LINES),
    "conv1d_circular": lambda: (nn.Conv1d(6, 4, 3, padding=1, padding_mode="circular"), LINES),
    "conv2d": lambda: (nn.Conv2d(6, 4, 3, padding=1), IMAGES.contiguous(memory_format=torch.channels_last)),
    "conv2d_single": lambda: (Use(lambda own, x: torch.stack([F.conv2d(one, own.w) for one in x]), w=(4, 6, 2, 2)), IMAGES),
    "conv3d": lambda: (nn.Conv3d(4, 6, 2, padding=1, stride=(1, 2, 1)), VOLUMES),
    "conv3d_groups": lambda: (nn.Conv3d(4, 6, 2, groups=2), VOLUMES),
    "transposed_1d": lambda: (nn.ConvTranspose1d(6, 4, 3, stride=2, output_padding=1), LINES),
    "transposed_1d_groups": lambda: (nn.ConvTranspose1d(6, 4, 3, stride=2, groups=2), LINES),
    "transposed_2d": lambda: (nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, dilation=2), IMAGES),
    "transposed_2d_depthwise": lambda: (
        nn.ConvTranspose2d(6, 6, 3, groups=6),
        IMAGES.contiguous(memory_format=torch.channels_last),
    ),
    "transposed_3d": lambda: (nn.ConvTranspose3d(4, 6, 2, stride=2), VOLUMES),
    "attention": lambda: (Attention(batch_first=True), POINTS),
    "attention_weights": lambda: (Attention(weights=True), POINTS),
    "attention_causal": lambda: (Attention(batch_first=True, mask="causal"), POINTS),
    "attention_float_mask": lambda: (Attention(mask="float", weights=True), POINTS),
    "attention_padding": lambda: (Attention(batch_first=True, mask="padding"), POINTS),
    "attention_sizes": lambda: (Attention(batch_first=True, other=6, kdim=6, vdim=6), POINTS),
    "attention_cross": lambda: (Attention(batch_first=True, other=8), POINTS),
    "attention_bias": lambda: (Attention(add_bias_kv=True, add_zero_attn=True), POINTS),
    "transformer": lambda: (nn.TransformerEncoder(LAYER, 2, enable_nested_tensor=False), POINTS),
    "gru": lambda: (Recurrent(nn.GRU, batch_first=True), POINTS),
    "gru_both_ways": lambda: (Recurrent(nn.GRU, num_layers=2, bidirectional=True), POINTS),
    "lstm": lambda: (Recurrent(nn.LSTM, batch_first=True, num_layers=2), POINTS),
    "lstm_projected": lambda: (Recurrent(nn.LSTM, proj_size=2), POINTS),
    "rnn": lambda: (Recurrent(nn.RNN, bias=False), POINTS),
    "rnn_relu": lambda: (Recurrent(nn.RNN, nonlinearity="relu"), POINTS),
    "gru_cell": lambda: (Cells(nn.GRUCell), POINTS),
    "lstm_cell": lambda: (Cells(nn.LSTMCell), POINTS),
    "rnn_cell": lambda: (Cells(nn.RNNCell), POINTS),
    "vision_transformer": lambda: (vision_transformer(), torch.randn(6, 3, 8, 8).double()),
    "char_gpt": lambda: (text_network(), WORDS),
    "int8_mlp": lambda: (Int8MLP([1, 8, 8], [6], 2, outputs=3), torch.randn(6, 1, 8, 8).double()),
    "ternary_cnn": lambda: (TernaryCNN([1, 13, 13], [3, 4], outputs=3), torch.randn(6, 1, 13, 13).double()),
    "spiking": lambda: (SpikingMLP([1, 8, 8], [6, 5], 5, 0.9, 1.0, 2, outputs=3), torch.randn(6, 1, 8, 8).double()),
}


@cache
def case_of(name: str) -> tuple[nn.Module, Tensor]:
    """Return the network of a case, with sizes for its lazy layers, and its inputs."""
    torch.manual_seed(1)
    module, inputs = CASES[name]()
    module.double()(inputs)
    return module.float(), inputs


# each case by one sampler, in turn: how samplers meet operators is the matter of ``SOME``
ROWS = (("sign_flip", "sparse_both", "sign_flip_outputs", "sparse_outputs"), ("low_rank", "iid", "permutation", "sparse_inputs"))
TURNS = [(case, ROWS[place // 4 % 2][place % 4]) for place, case in enumerate(CASES)]
SOME = ("linear", "piece_transposed", "bare", "embedding", "conv1d", "transposed_2d_depthwise", "attention", "lstm")


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize(("case", "sampler"), TURNS, indirect=["sampler"])
def test_the_mapped_pass_is_the_loop_over_members(sampler, case):
    check(sampler, *case_of(case))


@each_pair(indirect=["sampler"], sampler=list(SAMPLERS), case=SOME, pairs=[True, False])
def test_without_pairs_and_by_every_sampler(sampler, case, pairs):
    check(sampler, *case_of(case), pairs=pairs)


@pytest.mark.parametrize("name", ["attention", "vision_transformer", "char_gpt"])
def test_attention_by_loops_is_the_loop_over_members(name):
    """In float32, which the trials of a run do not meet."""
    sampler: Sampler = make(composed("sampler=iid"), "sampler", Sampler)
    module, inputs = case_of(name)
    forward, module, layout, rows = mapped(sampler, module)
    exact = copy.deepcopy(module)
    forward = MappedForward(module.float(), layout, sampler.perturbation(GENERATION, FIRST, rows, torch.float32))
    given = inputs.float() if inputs.is_floating_point() else inputs
    with torch.no_grad(), mock.patch.object(core_rows.attention_kernels, "attended", side_effect=attended) as loop, forward:
        made = module(given)
    assert loop.call_count
    centre, wanted = layout.flatten(exact), []
    for scale in rows.scales:
        for direction, batch in enumerate(inputs.split(EXAMPLES)):
            views = layout.views(centre + scale * sampler.explicit(GENERATION, FIRST + direction, torch.float64))
            parameters = {place.name: view for place, view in zip(layout.places, views, strict=True)}
            wanted.append(torch.func.functional_call(exact, parameters, (batch,)))
    torch.testing.assert_close(made, torch.cat(wanted).float(), rtol=1e-4, atol=1e-4)


def test_the_outputs_of_all_members_do_not_count_as_one_members():
    sampler: Sampler = make(composed("sampler=iid"), "sampler", Sampler)
    forward, module, _, _ = mapped(sampler, nn.Linear(3, 7))
    with torch.no_grad(), forward:
        module(torch.randn(6, 3).double())
    assert forward.largest == 7


def refused(module: nn.Module, inputs: Tensor, match: str) -> None:
    sampler: Sampler = make(composed("sampler=low_rank"), "sampler", Sampler)
    forward, module, _, _ = mapped(sampler, module)
    with pytest.raises(Unsupported, match=match), torch.no_grad(), forward:
        module(inputs)
    assert "forward" not in vars(module)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda own, x: x + own.big.sum(), r"sum uses parameter big of 262,145 values: at most 262,144 in such a use"),
        (lambda own, x: x * own.small[0].item(), "item reads parameter small"),
        (lambda own, x: x + own.small.add_(1), "add_ changes parameter small"),
        (lambda own, x: (x * own.small).sum(), r"an output of shape \(\) for 2 examples of a member"),
        (lambda own, x: torch.vmap(lambda row: F.linear(row, own.matrix))(x), "the module uses torch.vmap itself"),
    ],
    ids=["large", "read", "changed", "no_rows", "vmap"],
)
def test_what_cannot_be_done_for_all_members_names_the_parameter(use, message):
    refused(Use(use, big=(2**18 + 1,), small=(8,), matrix=(3, 8)), VECTORS, message)


def test_a_large_embedding_is_looked_up_and_never_written_out():
    large = nn.Embedding(2**15, 9)
    check(make(composed("sampler=sign_flip"), "sampler", Sampler), large, torch.randint(0, 2**15, (6, 4)))
    refused(Use(lambda own, x: x.float() @ own.w.sum(0, keepdim=True), w=(2**15, 9)), WORDS, "sum uses parameter w")


def test_rows_that_are_not_the_members_and_parameters_outside_of_the_module_are_refused():
    refused(nn.Linear(8, 3), VECTORS[:5], "the module gets 5 rows for 12 examples")
    forward, module, _, _ = mapped(make(composed("sampler=low_rank"), "sampler", Sampler), nn.Linear(8, 3))
    with pytest.raises(Unsupported, match="linear uses parameter weight outside"), torch.no_grad(), forward:
        F.linear(VECTORS, module.weight)


def test_memory_of_a_view_is_that_of_the_parameter_in_channels_last():
    """Parameters of a run are views of one vector, convolutions' in another order than their shape's."""
    module = Use(lambda own, x: x + own.p[:, 1:7, :, 2], p=(1, 8, 9, 4))
    sampler: Sampler = make(composed("sampler=sign_flip"), "sampler", Sampler)
    layout = ParameterLayout(module)
    flat = layout.flatten(module).double()
    layout.attach(module.double(), flat)
    assert not module.p.is_contiguous()
    check(sampler, module.float(), LINES)
    assert math.isfinite(float(flat.sum()))
