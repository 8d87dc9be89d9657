"""Models of layers' answers, and what calls without parameters make of changes, against torch's own derivatives."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.rows import Geometry
from neuro_cli.scoring.activation.clean_pass import CleanCalls, CleanMode
from neuro_cli.scoring.activation.fixed import Attention
from neuro_cli.scoring.activation.found import FoundFixed
from neuro_cli.scoring.activation.gate import gate_of
from neuro_cli.scoring.activation.marks import with_mark
from neuro_cli.scoring.activation.response import Convolution, Dense, ImageForm, Norm, Response, least_squares

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)


def noted(module: nn.Module, x: Tensor) -> CleanCalls:
    """The calls of a pass of ``module``."""
    layout, parameters = ParameterLayout(module), dict(module.named_parameters())
    places = {id(parameters[place.name]): (parameters[place.name], place) for place in layout.places}
    with_mark([x])
    with torch.no_grad(), CleanMode(places, True) as mode:
        module(x)
    mode.noted.join()
    return mode.noted


def learnt(response: Response, shapes: list[tuple[int, ...]], answer, rounds: int) -> float:
    """Relative error of what ``response`` foresees of ``answer``, a function of changes, after so many of them."""
    for _ in range(rounds):
        changes = [torch.randn(shape) for shape in shapes]
        response.learn(changes, answer(*changes))
    changes = [torch.randn(shape) for shape in shapes]
    right = answer(*changes)
    return float((response.foreseen(changes) - right).norm() / right.norm())


def is_adjoint(response: Response, shapes: list[tuple[int, ...]], outputs: tuple[int, ...]) -> bool:
    """Tell whether derivatives are those of what is foreseen: <g, J d> = <J^T g, d>."""
    changes, derivative = [torch.randn(shape) for shape in shapes], torch.randn(outputs)
    forth = (response.foreseen(changes) * derivative).sum()
    back = sum((part * change).sum() for part, change in zip(response.derivatives(derivative), changes, strict=True))
    return bool(torch.isclose(forth, back, rtol=1e-4))


@pytest.mark.parametrize("rows", [8, 200])  # fewer and more than the numbers that an output depends on
def test_a_dense_model_learns_a_linear_answer(rows):
    first, second = torch.randn(20, 7), torch.randn(9, 7)
    shapes = [(rows, 20), (rows, 9)]
    response = Dense([20, 9], 7, CPU)
    assert learnt(response, shapes, lambda a, b: a @ first + b @ second, 60 if rows < 29 else 12) < 0.02
    assert is_adjoint(response, shapes, (rows, 7))


@pytest.mark.parametrize(("stride", "padding", "dilation"), [((1, 1), (1, 1), (1, 1)), ((2, 2), (0, 1), (1, 2))])
def test_a_model_of_a_convolution_learns_its_kernel(stride, padding, dilation):
    weight, geometry = torch.randn(5, 3 + 2, 3, 2), Geometry(stride, padding, dilation)
    shapes = [(6, 3, 9, 8), (6, 2, 9, 8)]

    def answer(a: Tensor, b: Tensor) -> Tensor:
        return F.conv2d(torch.cat([a, b], 1), weight, None, stride, padding, dilation)

    outputs = tuple(answer(*map(torch.zeros, shapes)).shape)
    response = Convolution([3, 2], ImageForm((3, 2), geometry, (9, 8)), outputs[1:], CPU)
    assert learnt(response, shapes, answer, 12) < 0.02
    assert is_adjoint(response, shapes, outputs)


def test_least_squares_of_nothing_are_zero():
    assert not least_squares(torch.zeros(4, 6), torch.randn(4, 2)).any()
    assert not least_squares(torch.zeros(6, 4), torch.randn(6, 2)).any()


@pytest.mark.parametrize("wrong", [torch.inf, torch.nan])
def test_a_model_takes_nothing_that_is_no_number(wrong):
    rows = torch.randn(6, 4)
    rows[2, 1] = wrong
    assert not least_squares(rows, torch.randn(6, 2)).any()


@pytest.mark.parametrize("centred", [True, False])
def test_a_norm_has_the_derivative_of_torchs(centred):
    x, change = torch.randn(4, 5, 6), torch.randn(4, 5, 6)

    def run(x: Tensor) -> Tensor:
        return F.layer_norm(x, (6,), eps=1e-3) if centred else F.rms_norm(x, (6,), eps=1e-3)

    _, right = torch.func.jvp(run, (x,), (change,))
    torch.testing.assert_close(Norm(x, 1e-3, centred)(change.flatten(0, 1)), right.flatten(0, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.rand(5, 5).tril()}])
def test_attention_has_the_derivative_of_torchs(options):
    whole, change = torch.randn(2, 5, 18), torch.randn(2, 5, 18)

    def parts(whole: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (2, 3)).transpose(1, 2) for part in whole.chunk(3, -1)]

    def run(whole: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # the one with forward derivatives
            return F.scaled_dot_product_attention(*parts(whole), **options)

    found = FoundFixed(0, F.scaled_dot_product_attention, parts(whole), [frozenset((0,))] * 3, options)
    attention = Attention(found, run(whole), [4, 4, 4], [whole] * 3)
    made, right = torch.func.jvp(run, (whole,), (change,))
    torch.testing.assert_close(attention.answer({4: change}), right, rtol=1e-4, atol=1e-5)
    derivative = torch.randn_like(made)
    _, back = torch.func.vjp(run, whole)
    torch.testing.assert_close(attention.taken_back(derivative)[4], back(derivative)[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(attention.form_of(attention.rows_of(made)), made)
    assert not attention.answer({}).any()


@pytest.mark.parametrize(
    ("behind", "hard"),
    [
        ([nn.ReLU()], True),
        ([nn.GELU()], False),
        ([nn.ELU()], False),
        ([nn.MaxPool2d(2)], True),
        ([nn.ReLU(), nn.MaxPool2d(2)], True),
        ([nn.MaxPool2d(2), nn.ReLU()], True),
        ([nn.MaxPool2d(2), nn.SiLU()], False),
        ([nn.Tanh(), nn.MaxPool2d((2, 3)), nn.ReLU()], False),
        ([nn.ReLU(inplace=True), nn.MaxPool2d(2)], True),
    ],
)
def test_a_gate_passes_on_what_torch_does(behind, hard):
    x = torch.randn(3, 2, 7, 7)
    first = nn.Conv2d(2, 4, 2)
    size = nn.Sequential(first, *behind)(x).flatten(1).shape[1]
    calls = noted(nn.Sequential(first, *behind, nn.Flatten(), nn.Linear(size, 2)), x)
    gate = gate_of(calls.layers[0], True)
    assert gate is not None
    assert torch.equal(gate.alive, gate.slope) == hard
    outputs = first(x).detach()
    change = torch.randn_like(outputs)
    run = nn.Sequential(*[nn.ReLU() if isinstance(part, nn.ReLU) else part for part in behind])
    made, right = torch.func.jvp(run, (outputs,), (change,))
    torch.testing.assert_close(gate.passed_on(change), right, rtol=1e-3, atol=1e-3)
    assert gate.shape == tuple(made.shape)
    derivative = torch.randn_like(made)
    _, back = torch.func.vjp(run, outputs)
    torch.testing.assert_close(gate.taken_back(derivative), back(derivative)[0], rtol=1e-3, atol=1e-3)


class Shared(nn.Module):
    """Outputs that a pool and another call get."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(F.max_pool2d(x, 2).mean((2, 3)) + x.mean((2, 3)))


def test_a_layer_that_others_get_whole_has_no_gate():
    assert gate_of(noted(Shared(), torch.randn(2, 1, 5, 5)).layers[0], True) is None


class Branches(nn.Module):
    """Two layers whose sum goes on, and a third that gets both as a row."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = nn.Linear(3, 4), nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.a(x), self.b(x)
        return self.d(torch.cat([self.c(a + b), a * 2], 1))


def test_layers_know_what_they_depend_on():
    calls = noted(Branches(), torch.randn(2, 3))
    assert [calls.sources_of(number) for number in range(4)] == [[], [], [0, 1], [0, 2]]
    assert [layer.summed for layer in calls.layers] == [False, False, True, False]
