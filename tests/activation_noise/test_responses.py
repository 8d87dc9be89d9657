"""Models of calls' responses, and the backward graph of them, against torch's own derivatives."""

from random import Random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise.derivatives.backward_graph import PointwiseNode, depends_on_steps
from neuro_cli.activation_noise.derivatives.outside_torch import ForeignValues
from neuro_cli.activation_noise.derivatives.replacements import attention
from neuro_cli.activation_noise.derivatives.response import (
    Convolution,
    Dense,
    Diagonal,
    GroupedConvolution,
    ImageForm,
    Kernel,
    Response,
    least_squares,
)
from neuro_cli.activation_noise.derivatives.step_functions import Step
from neuro_cli.activation_noise.prediction import ResponseModels
from neuro_cli.activation_noise.recording.clean_pass import PassRecord, RecordingMode
from neuro_cli.activation_noise.recording.output_mask import output_mask
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.rows import Geometry
from neuro_cli.scoring.passes.example_marks import with_mark

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _same_numbers():
    torch.manual_seed(0)


def recorded(module: nn.Module, x: Tensor, backward: bool = False) -> PassRecord:
    """Record a pass of ``module``."""
    layout, parameters = ParameterLayout(module), dict(module.named_parameters())
    places = {id(parameters[place.name]): (parameters[place.name], place) for place in layout.places}
    with_mark([x])
    with torch.no_grad(), RecordingMode(places, ForeignValues(module, len(x)), not backward, backward) as mode:
        module(x)
    mode.record.join_layers()
    return mode.record


def learnt(response: Response, shape: tuple[int, ...], answer, rounds: int) -> float:
    """Return the relative error of a model's derivatives after ``rounds`` changes and their ``answer``, a linear function."""
    for _ in range(rounds):
        change = torch.randn(shape)
        response.learn([(change, answer(change))])
    made, back = torch.func.vjp(answer, torch.zeros(shape))
    derivative = torch.randn_like(made)
    [right] = back(derivative)
    return float((response.pull_back(derivative, shape) - right).norm() / right.norm())


@pytest.mark.parametrize("rows", [8, 200])  # fewer and more than the values that an output depends on
def test_a_dense_model_learns_a_linear_answer(rows):
    weight = torch.randn(29, 7)
    assert learnt(Dense(29, 7, True, CPU), (rows, 29), lambda x: x @ weight, 60 if rows < 29 else 12) < 0.02


def test_a_dense_model_of_places_learns_from_all_of_them():
    weight = torch.randn(6, 7)
    assert learnt(Dense(6, 7, True, CPU), (2, 5, 6), lambda x: x @ weight, 12) < 0.02
    mixed = torch.randn(2 * 6, 3 * 7)
    assert learnt(Dense(12, 21, False, CPU), (40, 2, 6), lambda x: (x.flatten(1) @ mixed).unflatten(1, (3, 7)), 12) < 0.02


@pytest.mark.parametrize(("stride", "padding", "dilation"), [((1, 1), (1, 1), (1, 1)), ((2, 2), (0, 1), (1, 2))])
def test_a_model_of_a_convolution_learns_its_kernel(stride, padding, dilation):
    weight, shape = torch.randn(5, 3, 3, 2), (6, 3, 9, 8)

    def answer(x: Tensor) -> Tensor:
        return F.conv2d(x, weight, None, stride, padding, dilation)

    outputs = tuple(answer(torch.zeros(shape)).shape)
    form = ImageForm((3, 2), Geometry(stride, padding, dilation), shape[1:], outputs[2:])
    assert learnt(Convolution(form, outputs[1], CPU), shape, answer, 12) < 0.02


@pytest.mark.parametrize(("groups", "outputs"), [(4, 4), (4, 8), (2, 6)])
def test_a_model_of_a_grouped_convolution_learns_its_kernel_alone(groups, outputs):
    weight, shape = torch.randn(outputs, 4 // groups, 3, 2), (6, 4, 9, 8)

    def answer(x: Tensor) -> Tensor:
        return F.conv2d(x, weight, None, (2, 1), (1, 0), 1, groups)

    form = ImageForm((3, 2), Geometry((2, 1), (1, 0), (1, 1)), shape[1:], tuple(answer(torch.zeros(shape)).shape[2:]))
    model = GroupedConvolution(form, outputs, groups, CPU)
    assert model.matrix.numel() == weight.numel()
    assert learnt(model, shape, answer, 12) < 0.02
    before = model.matrix
    model.learn([(torch.zeros(shape), torch.zeros_like(answer(torch.zeros(shape))))])
    assert torch.equal(model.matrix, before)
    [node] = [node for node in recorded(GroupedNet(), torch.randn(2, 2, 3, 3), backward=True).nodes if node.make_model]
    assert isinstance(node.make_model(CPU), GroupedConvolution)


class GroupedNet(nn.Module):
    """Two convolutions, the second of single channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 4, 3, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def error_of(response: Response, shape: tuple[int, ...], answer) -> float:
    """Return the relative error of a model's derivative of ``answer``, a linear function but for a constant."""
    made, back = torch.func.vjp(answer, torch.zeros(shape))
    derivative = torch.randn_like(made)
    [right] = back(derivative)
    return float((response.pull_back(derivative, shape) - right).norm() / right.norm().clamp_min(1e-9))


@pytest.mark.parametrize("seed", range(24))
def test_impulses_hold_the_kernel_of_any_convolution(seed):
    """Kernels, strides, padding, dilation, groups and sides of images at random."""
    draw = Random(seed)
    kernel, stride, padding, dilation = (
        [draw.randint(low, high) for _ in range(2)] for low, high in ((1, 5), (1, 3), (0, 2), (1, 2))
    )
    groups = draw.choice([1, 1, 2, 4])
    image, outputs = (groups * draw.randint(1, 6), draw.randint(9, 16), draw.randint(9, 16)), groups * draw.randint(1, 3)
    weight, bias = torch.randn(outputs, image[0] // groups, *kernel), 100 * torch.randn(outputs)

    def answer(x: Tensor) -> Tensor:
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)

    sides = tuple(answer(torch.zeros(1, *image)).shape[2:])
    form = ImageForm(tuple(kernel), Geometry(tuple(stride), tuple(padding), tuple(dilation)), image, sides)
    model = Convolution(form, outputs, CPU) if groups == 1 else GroupedConvolution(form, outputs, groups, CPU)
    units = model.units((3, *image), 0, False)
    assert len(units) == model._impulses.entries == model.units_of_all((3, *image))
    model.read(units, answer(units) - answer(torch.zeros_like(units[:1])))
    assert error_of(model, (3, *image), answer) < 1e-4


@pytest.mark.parametrize("seed", range(24))
def test_impulses_hold_the_kernel_of_volumes_and_transposed_convolutions(seed):
    draw = Random(seed)
    axes = draw.choice([1, 2, 3])
    transposed = axes < 3 or draw.random() < 0.5
    kernel, stride, padding, dilation = (
        [draw.randint(low, high) for _ in range(axes)] for low, high in ((1, 4), (1, 3), (0, 1), (1, 2))
    )
    padding = [min(pad, gap * (taps - 1)) for pad, gap, taps in zip(padding, dilation, kernel, strict=True)]
    groups = draw.choice([1, 1, 2])
    image, outputs = (groups * draw.randint(1, 5), *(draw.randint(7, 9) for _ in range(axes))), groups * draw.randint(1, 3)
    extra = [draw.randint(0, max(step, gap) - 1) for step, gap in zip(stride, dilation, strict=True)]
    bias = 100 * torch.randn(outputs)
    if transposed:
        weight, call = torch.randn(image[0], outputs // groups, *kernel), getattr(F, f"conv_transpose{axes}d")
        given = (bias, stride, padding, extra, groups, dilation)
    else:
        weight, call = torch.randn(outputs, image[0] // groups, *kernel), F.conv3d
        given = (bias, stride, padding, dilation, groups)

    def answer(x: Tensor) -> Tensor:
        return call(x, weight, *given)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.weight = nn.Parameter(torch.ones(())), nn.Parameter(weight)

        def forward(self, x: Tensor) -> Tensor:
            return call(x * self.scale, self.weight, *given)

    [_, node] = recorded(Net(), torch.randn(3, *image), backward=True).nodes
    assert node.is_read
    model = node.make_model(CPU)
    assert isinstance(model, Kernel)
    assert model.matrix.numel() == weight.numel()
    units = model.units((3, *image), 0, False)
    model.read(units, answer(units) - answer(torch.zeros_like(units[:1])))
    assert error_of(model, (3, *image), answer) < 1e-4


@pytest.mark.parametrize("volumes", [False, True])
def test_gradients_pass_large_transposed_convolutions_and_volumes(volumes):
    """Dense models of these calls would have half a billion numbers and 50 million."""
    torch.manual_seed(1)
    if volumes:
        model = nn.Sequential(
            nn.Conv3d(1, 4, 3), nn.Tanh(), nn.Conv3d(4, 4, 3, padding=1), nn.Tanh(),
            nn.AvgPool3d(5), nn.Flatten(), nn.Linear(32, 3),
        )  # fmt: skip
        x = torch.randn(4, 1, 12, 12, 12)
    else:
        model = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 1, 3, padding=1), nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 3),
        )  # fmt: skip
        x = torch.randn(4, 1, 64, 64)
    y = torch.arange(4) % 3
    gradients = neuro.ForwardGradient(model, draws=1, seed=1, threads=1, correction="never")
    gradients.backward(nn.CrossEntropyLoss(reduction="none"), x, y)
    made = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    for mine, parameter in zip(made, model.parameters(), strict=True):
        assert float(F.cosine_similarity(mine.flatten(), parameter.grad.flatten(), 0)) > 0.9999


def test_a_model_that_is_read_in_part_follows_what_inputs_show_of_a_step():
    """A step of gradient descent is a sum over the examples' inputs, so that they show all of it."""
    rows, weight = torch.randn(20, 700), torch.randn(700, 30)
    model = Dense(700, 30, False, CPU)
    units = model.units((20, 700), 0, False)
    model.read(units, units @ weight)
    assert model.rows_to_follow == 0  # all were read
    weight += 0.1 * rows.T @ torch.randn(20, 30)
    units = model.units((20, 700), 1, False)
    model.read(units, units @ weight)
    before = (model.matrix - weight).norm()
    assert model.rows_to_follow == 128
    model.follow(rows, rows @ weight)
    torch.testing.assert_close(model.matrix[128:256], weight[128:256])  # read, and left alone
    assert (model.matrix - weight).norm() < 0.01 * before
    image, kernel = (40, 4, 4), torch.randn(24, 40, 3, 3)
    model = Convolution(ImageForm((3, 3), Geometry(padding=(1, 1)), image, image[1:]), 24, CPU)
    model.read(units := model.units((2, *image), 0, False), F.conv2d(units, kernel, padding=1))
    images = torch.randn(2, *image)
    derivative = torch.randn(2, 24, 4, 4)
    kernel += torch.nn.grad.conv2d_weight(images, kernel.shape, derivative, padding=1)
    model.read(units := model.units((2, *image), 1, False), F.conv2d(units, kernel, padding=1))
    before = error_of(model, (2, *image), lambda x: F.conv2d(x, kernel, padding=1))
    outputs = F.conv2d(images, kernel, padding=1)
    model.follow(model.input_rows(images), model.output_rows(outputs))
    assert error_of(model, (2, *image), lambda x: F.conv2d(x, kernel, padding=1)) < 0.05 * before


def test_impulses_take_turns_where_a_batch_is_small():
    image, weight = (40, 4, 4), torch.randn(24, 40, 3, 3)
    model = Convolution(ImageForm((3, 3), Geometry(padding=(1, 1)), image, image[1:]), 24, CPU)

    def read(turn: int, complete: bool = False) -> int:
        units = model.units((2, *image), turn, complete)
        model.read(units, F.conv2d(units, weight, padding=1))
        return len(units)

    assert read(0) == 40
    weight = torch.randn(24, 40, 3, 3)
    assert read(0, True) == 40
    assert error_of(model, (2, *image), lambda x: F.conv2d(x, weight, padding=1)) < 1e-4
    weight = torch.randn(24, 40, 3, 3)
    assert [read(turn) for turn in range(4)] == [8] * 4
    assert error_of(model, (2, *image), lambda x: F.conv2d(x, weight, padding=1)) > 0.1
    read(4)
    assert error_of(model, (2, *image), lambda x: F.conv2d(x, weight, padding=1)) < 1e-4
    before, weight = model.matrix, weight.fill_(torch.inf)
    read(5)
    assert model.matrix is before


def test_unit_inputs_read_a_matrix_in_turns():
    weight, bias = torch.randn(700, 5), torch.randn(5)
    model = Dense(700, 5, False, CPU)

    def read(turn: int, complete: bool = False) -> int:
        units = model.units((3, 7, 100), turn, complete)
        model.read(units, units.flatten(1) @ weight)
        return len(units)

    assert read(0) == 700  # all that were never read
    torch.testing.assert_close(model.matrix, weight)
    weight += bias
    weight[5] = model.matrix[5] = 0  # an input that nothing uses keeps no other from its turn
    assert [read(turn) for turn in range(3, 8)] == [129, 129, 128, 129, 129]  # the least rows of a fit
    assert (model.matrix - weight).norm(dim=1).count_nonzero() == 700 - 5 * 128
    read(8)
    torch.testing.assert_close(model.matrix, weight)
    weight += bias
    assert read(9, True) == 700
    torch.testing.assert_close(model.matrix, weight)
    before, units = model.matrix, model.units((3, 7, 100), 9, False)
    model.read(units, torch.full((len(units), 5), torch.nan))
    assert model.matrix is before


def test_a_diagonal_model_reads_slopes():
    slope, model = torch.randn(4, 1, 1), Diagonal((4, 1, 1), CPU)
    units = model.units((3, 4, 5, 5), 0, False)
    model.read(units, units * slope)
    torch.testing.assert_close(model.matrix, slope, rtol=1e-6, atol=0)
    before = model.matrix
    model.read(units, torch.full_like(units, torch.nan))
    assert model.matrix is before


def test_least_squares_of_nothing_are_zero():
    assert not least_squares(torch.zeros(4, 6), torch.randn(4, 2)).any()
    assert not least_squares(torch.zeros(6, 4), torch.randn(6, 2)).any()


@pytest.mark.parametrize("wrong", [torch.inf, torch.nan])
def test_a_model_takes_nothing_that_is_no_number(wrong):
    rows = torch.randn(6, 4)
    rows[2, 1] = wrong
    assert not least_squares(rows, torch.randn(6, 2)).any()


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": torch.rand(5, 5).tril()}])
def test_attention_is_that_of_torch(options):
    query, key, value = torch.randn(3, 2, 4, 5, 6).unbind()
    right = F.scaled_dot_product_attention(query, key, value, **options)
    torch.testing.assert_close(attention(query, key, value, **options), right, rtol=1e-4, atol=1e-5)


def test_several_queries_of_attention_share_a_key_as_in_torch():
    query, (key, value) = torch.randn(2, 6, 5, 4), torch.randn(2, 2, 3, 5, 4).unbind()
    right = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(attention(query, key, value, is_causal=True, enable_gqa=True), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("behind", "smooth"),
    [
        ([nn.ReLU()], True),
        ([nn.GELU()], True),
        ([nn.MaxPool2d(2)], False),
        ([nn.ReLU(), nn.MaxPool2d(2)], False),
        ([nn.MaxPool2d(2), nn.ReLU()], False),
        ([nn.MaxPool2d(2), nn.SiLU()], True),
        ([nn.Tanh(), nn.MaxPool2d((2, 3)), nn.ReLU()], True),
        ([nn.ReLU(inplace=True), nn.MaxPool2d(2)], False),
    ],
)
def test_noise_goes_where_something_reaches_later_calls(behind, smooth):
    x = torch.randn(3, 2, 7, 7)
    first = nn.Conv2d(2, 4, 2)
    size = nn.Sequential(first, *behind)(x).flatten(1).shape[1]
    record = recorded(nn.Sequential(first, *behind, nn.Flatten(), nn.Linear(size, 2)), x)
    outputs, mask = first(x).detach(), output_mask(record.layers[0], smooth)
    reaching = torch.ones_like(outputs, dtype=torch.bool) if mask is None else mask != 0
    run = nn.Sequential(*[nn.ReLU() if isinstance(part, nn.ReLU) else part for part in behind])
    made, back = torch.func.vjp(run, outputs)
    [slopes] = back(torch.ones_like(made))
    assert torch.equal(reaching, slopes != 0)


class Shared(nn.Module):
    """Outputs with two users, a pool and another call."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(1, 2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(F.max_pool2d(x, 2).mean((2, 3)) + x.mean((2, 3)))


def test_nothing_is_known_of_a_layer_that_others_get_whole():
    assert output_mask(recorded(Shared(), torch.randn(2, 1, 5, 5)).layers[0], True) is None


class Kinds(nn.Module):
    """Calls with parameters of all kinds that the backward graph tells apart."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.gain, self.place = (nn.Parameter(torch.randn(size)) for size in ((1, 1, 6), (6,), (4, 6)))
        self.conv, self.norm, self.scale = nn.Conv2d(2, 6, 2, 2), nn.BatchNorm2d(6), nn.LayerNorm(6)
        self.mixed, self.last = nn.MultiheadAttention(6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x).tanh()).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x[:, :3]], 1) + self.place
        x = self.scale(x) * self.gain
        x = x + self.mixed(x, x, x, need_weights=False)[0]
        return self.last((x * 4).round().mean(1))


def test_the_backward_graph_goes_through_every_call_by_a_model_of_its_kind():
    torch.manual_seed(1)
    x = torch.randn(5, 2, 4, 4)
    module = Kinds()
    record = recorded(module, x, True)
    kinds = [type(node.make_model(CPU)).__name__ if node.make_model else "passed on" for node in record.nodes]
    assert kinds == [
        "passed on",
        "Diagonal",
        "passed on",
        "passed on",
        "Diagonal",
        "Diagonal",
        "Dense",
        "Dense",
        "passed on",
        "Dense",
    ]
    assert depends_on_steps(record.calls[-1].result)  # it rounds
    # with the weights as models and slope 1 for the step function, the graph has torch's derivatives
    weights = dict(module.named_parameters())
    for node in record.nodes:
        if node.make_model:
            node.response = node.make_model(CPU)
            weight = weights[node.names[0]]
            matrix = weight.detach().T if weight.dim() > 1 else weight.detach()
            node.response.matrix.copy_(matrix.reshape(node.response.matrix.shape))
    derivative = torch.randn(5, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "slope", lambda step: torch.ones_like(step.x))
        torch.autograd.grad([record.calls[record.layers[-1].call].result], [record.root], [derivative], allow_unused=True)
    met: list[Tensor] = []
    module.conv.register_forward_hook(lambda _, __, made: met.append(made))

    rounded = Tensor.round
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "round", lambda x: x + (rounded(x) - x).detach())
        [right] = torch.autograd.grad([module(x)], met, [derivative])
    torch.testing.assert_close(record.nodes[0].derivative, right, rtol=1e-3, atol=1e-5)


class Scaled(nn.Module):
    """A linear layer, then calls that multiply with a parameter, are distances to one, and are a product with a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.matrix = nn.Linear(6, 6), nn.Parameter(torch.randn(6, 4))
        self.gain, self.places = nn.Parameter(torch.rand(6) + 1), nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x)) * self.gain
        x = torch.cdist(x, self.places)
        return torch.addmm(self.matrix[0], x, self.matrix)


FEW = {  # modules with a layer of each kind behind the first one, and two examples
    "linear": (lambda: nn.Sequential(nn.Linear(5, 40), nn.ReLU(), nn.Linear(40, 3)), (2, 5)),
    "tokens": (lambda: nn.Sequential(nn.Linear(5, 40), nn.LayerNorm(40), nn.Linear(40, 3)), (2, 4, 5)),
    "images": (lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3)), (2, 1, 7, 7)),
    "groups": (lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, groups=4)), (2, 1, 7, 7)),
    "sequences": (lambda: nn.Sequential(nn.Linear(9, 9), nn.Conv1d(2, 3, 4)), (2, 2, 9)),
    "steps along a line": (lambda: nn.Sequential(nn.Conv1d(2, 6, 1), nn.Conv1d(6, 3, 3, 2, 2, dilation=2)), (2, 2, 9)),
    "groups along a line": (lambda: nn.Sequential(nn.Conv1d(2, 6, 1), nn.Conv1d(6, 12, 3, padding=1, groups=6)), (2, 2, 9)),
}


@pytest.mark.parametrize("name", FEW)
def test_models_learn_however_few_examples_there_are(name):
    make, shape = FEW[name]
    record = recorded(make(), torch.randn(shape), backward=True)
    models, nodes = ResponseModels(), [node for node in record.nodes if node.make_model is not None]
    models.attach(record.nodes, CPU)
    for turn in range(4):
        models.learn(record.nodes, [], turn, Threads(1))
    assert len(nodes) == len(make()) - 1 - sum(isinstance(part, nn.ReLU) for part in make())
    for node in nodes:
        change, right = node.response_to(torch.randn(node.inputs.shape))
        # the derivative by the input of a product with the outputs, along a change of the input
        by_outputs = torch.randn(node.outputs.shape)
        made = (node.response.pull_back(by_outputs, node.inputs.shape) * change).sum()
        assert made == pytest.approx(float((by_outputs * right).sum()), rel=1e-5, abs=1e-5 * float(right.norm()))


@pytest.mark.parametrize("groups", [1, 96])
def test_a_convolution_along_a_line_has_a_model_of_its_kernel(groups):
    """Not of all values of an example: 96 channels of 64 places would have 38 million products."""
    record = recorded(
        nn.Sequential(nn.Conv1d(2, 96, 1), nn.Conv1d(96, 96, 3, padding=1, groups=groups)), torch.randn(2, 2, 64), True
    )
    models, [node] = ResponseModels(), [node for node in record.nodes if node.make_model is not None]
    models.attach(record.nodes, CPU)
    models.learn(record.nodes, [], 0, Threads(1))
    assert node.response.matrix.numel() == 96 * 96 * 3 // groups
    change, right = node.response_to(torch.randn(node.inputs.shape))
    by_outputs = torch.randn(node.outputs.shape)
    made = (node.response.pull_back(by_outputs, node.inputs.shape) * change).sum()
    assert made == pytest.approx(float((by_outputs * right).sum()), rel=1e-4, abs=1e-5 * float(right.norm()))


def test_a_call_of_no_known_kind_learns_from_passes():
    record = recorded(Scaled(), torch.randn(3, 6), backward=True)
    gain, distance, product = [node for node in record.nodes if node.make_model is not None]
    assert (gain.is_read, distance.is_read, product.is_read) == (True, False, True)
    assert distance.position is not None


def pointwise() -> dict[str, nn.Module]:
    """Return calls of single values with a parameter (6,), or one number, as modules."""

    class Call(nn.Module):
        def __init__(self, run) -> None:
            super().__init__()
            self.parameter, self._run = nn.Parameter(torch.rand(6) + 1), run

        def forward(self, x: Tensor) -> Tensor:
            return self._run(x, self.parameter)

    runs = {
        "prelu": F.prelu,
        "power": lambda x, own: (x.abs() + 0.5).pow(own),
        "exponent": lambda x, own: own**x,
        "quotient": lambda x, own: own / (x.square() + 1),
        "bounds": lambda x, own: torch.clamp(x, max=own - 1),
        "maximum": lambda x, own: torch.maximum(own - 1.5, x),
        "least": lambda x, own: torch.clamp_min(x, own - 1.5),
        "length": torch.hypot,
    }
    return {name: Call(run) for name, run in runs.items()}


@pytest.mark.parametrize("name", list(pointwise()))
def test_calls_of_single_values_pass_on_their_slopes(name):
    call = pointwise()[name]
    record = recorded(nn.Sequential(nn.Linear(6, 6), call), torch.randn(5, 6), backward=True)
    x = record.nodes[0].outputs
    assert isinstance(record.nodes[1], PointwiseNode)
    derivative = torch.randn(5, 6)
    torch.autograd.grad([record.calls[record.layers[-1].call].result], [record.root], [derivative], allow_unused=True)
    _, back = torch.func.vjp(call, x)
    torch.testing.assert_close(record.nodes[0].derivative, back(derivative)[0], rtol=2e-3, atol=1e-4)


def test_a_quotient_that_is_rounded_is_a_step():
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.size = nn.Linear(6, 6), nn.Parameter(torch.full((6,), 0.1))

        def forward(self, x: Tensor) -> Tensor:
            return torch.div(self.first(x), self.size, rounding_mode="floor")

    record = recorded(Rounded(), torch.randn(50, 6), backward=True)
    result = record.calls[record.layers[-1].call].result
    assert depends_on_steps(result)
    torch.autograd.grad([result.sum()], [record.root], allow_unused=True)
    assert float(record.nodes[0].derivative.mean()) == pytest.approx(10, rel=0.1)  # as without rounding


class Parts(nn.Module):
    """Matrices that are slices of one parameter, some of them used twice, then one of them scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.stack, self.last = nn.Linear(8, 8), nn.Parameter(torch.randn(3, 8, 8) / 3), nn.Linear(8, 4)
        self.norms = nn.Parameter(torch.rand(2, 8) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        for place in (0, 1, 0, 2):
            x = x + torch.tanh(x @ self.stack[place])
        for scale in self.norms:
            x = x + F.layer_norm(x, (8,), scale).square()
        return self.last(torch.tanh(x @ (0.5 * self.stack[1])) * self.norms[0])


def test_calls_share_a_model_where_they_are_the_same_function():
    record = recorded(Parts(), torch.randn(4, 8), backward=True)
    models = ResponseModels()
    models.attach(record.nodes, CPU)
    found = [node.response for node in record.nodes if node.response is not None]
    assert found[0] is found[2]
    assert len(set(found)) == len(found) - 1 == 8
    models.learn(record.nodes, [], 0, Threads(1))
    assert sorted(name for name in models.state() if "stack" in name) == [
        f"control.stack/dense/(8, 8)/True{end}" for end in ("", "/1", "/3", "/4")
    ]


class Steps(nn.Module):
    """A recurrent cell in a loop, with a state of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.run, self.last = nn.GRUCell(2, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        state, states = x.new_zeros(len(x), 8), []
        for place in range(0, 8, 2):
            state = self.cell(x[:, place : place + 2], state)
            states.append(state)
        return self.last(self.run(torch.stack(states, 1))[0][:, -1])


class Queries(nn.Module):
    """Attention whose matrices of queries, keys and values are slices of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mixed, self.last = nn.Linear(2, 8), nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x.view(-1, 4, 2)))
        return self.last(self.mixed(x, x.flip(1), 2 * x, need_weights=False)[0].mean(1))


class Sums(nn.Module):
    """A product for each head, by einsum and by matmul, one that mixes places from the left, and one with a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 6), nn.Linear(6, 4)
        self.heads, self.own, self.places = (nn.Parameter(torch.randn(shape) / 2) for shape in ((6, 2, 3), (2, 3, 3), (4, 4)))
        self.query = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        heads = torch.tanh(torch.einsum("btd,dhe->bhte", torch.tanh(self.first(x.view(-1, 4, 2))), self.heads))
        heads = heads + torch.tanh(heads @ self.own)
        x = (self.places @ heads.transpose(1, 2).flatten(2)).tanh()
        return self.last((x * (x @ self.query).softmax(1)[..., None]).sum(1))


class Products(nn.Module):
    """A gate by a vector, an einsum of any number of axes, one without a result's letters, and a matrix for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)
        self.gate, self.own = nn.Parameter(torch.randn(8)), nn.Parameter(torch.randn(1, 2, 2, 2))
        self.left, self.right = (nn.Parameter(torch.randn(8, 8) / 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        x = torch.tanh(x * (x @ self.gate)[:, None])
        x = torch.tanh(torch.einsum("...i,io->...o", x, self.left)) + torch.tanh(torch.einsum("bi,ij", x, self.right))
        return self.last(torch.tanh(x.view(-1, 2, 2, 2) @ self.own).flatten(1))


class Written(nn.Module):
    """A product and a quotient that are written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)
        self.scale, self.size = (nn.Parameter(torch.rand(8) + 0.5) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x)).clone()
        x *= self.scale
        x /= self.size
        return self.last(torch.tanh(x))


def normed(norm: nn.Module) -> nn.Module:
    """Return a network of 4x4 images behind an outer product, with a ``norm`` of 8 channels and PReLU."""
    first = (nn.Linear(8, 16), nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 8, 3))
    return nn.Sequential(*first, norm, nn.PReLU(8), nn.Conv2d(8, 8, 2, groups=4), nn.PReLU(), nn.Flatten(), nn.Linear(8, 4))


EXACT = {
    "slices": Parts, "steps": Steps, "queries": Queries, "sums": Sums,
    "products": Products, "written": Written,
    "batch": lambda: normed(nn.BatchNorm2d(8)), "group": lambda: normed(nn.GroupNorm(4, 8)),
    "instance": lambda: normed(nn.InstanceNorm2d(8, affine=True)),
    "layer": lambda: normed(nn.LayerNorm((8, 2, 2))), "rms": lambda: normed(nn.RMSNorm((2, 2))),
    "wide": lambda: nn.Sequential(nn.Linear(8, 600), nn.Tanh(), nn.Linear(600, 4)),
    "weights": lambda: nn.Sequential(
        nn.Linear(8, 8), nn.Tanh(), torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 6)), nn.SELU(), nn.Linear(6, 4)
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "examples"), [*((name, 8) for name in EXACT), ("products", 1), ("written", 1)])
def test_predictions_are_the_gradient_also_of_parameters_that_move(name, examples):
    network = EXACT[name]()
    losses = nn.CrossEntropyLoss(reduction="none")
    estimate = neuro.ForwardGradient(network, threads=1, correction="never")
    for step in range(3):
        inputs, targets = torch.randn(examples, 8), torch.randint(4, (examples,))
        network.zero_grad()
        estimate.backward(losses, inputs, targets)
        made = {name: parameter.grad.flatten() for name, parameter in network.named_parameters()}
        network.zero_grad()
        losses(network(inputs), targets).mean().backward()
        length = torch.cat([parameter.grad.flatten() for parameter in network.parameters()]).norm()
        for part, parameter in network.named_parameters():
            error = (made[part] - parameter.grad.flatten()).norm()
            assert error < 1e-3 * parameter.grad.norm() + 1e-5 * length, (step, part)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter += 0.05 * torch.randn_like(parameter)


class Halves(nn.Module):
    """Linear layers in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            x = self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return x.float()


def test_calls_are_read_with_the_casts_of_their_pass():
    module = Halves()
    record = recorded(module, torch.randn(5, 6), backward=True)
    models = ResponseModels()
    models.attach(record.nodes, CPU)
    models.learn(record.nodes, [], 0, Threads(1))
    found = [node.response.matrix for node in record.nodes if node.response is not None]
    for matrix, layer in zip(found, (module.second, module.last), strict=True):
        torch.testing.assert_close(matrix, layer.weight.detach().T, rtol=1e-2, atol=1e-3)


class Turned(nn.Module):
    """A linear call that has examples in place of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.own, self.shift = nn.Linear(6, 6), nn.Parameter(torch.randn(7, 6)), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.own, self.first(x), self.shift).T


def test_examples_in_place_of_a_weight_are_not_read():
    record = recorded(Turned(), torch.randn(5, 6), backward=True)
    assert not any(node.is_read for node in record.nodes)


def test_values_near_which_slopes_are_taken_are_those_of_the_call():
    class Later(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.turn = nn.Linear(6, 6), nn.PReLU(6)

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            y = self.turn(x)
            x.neg_()  # read by none, but for the slopes
            return y

    module, x = Later(), torch.randn(5, 6)
    layout, parameters = ParameterLayout(module), dict(module.named_parameters())
    places = {id(parameters[place.name]): (parameters[place.name], place) for place in layout.places}
    with_mark([x])
    with torch.no_grad(), RecordingMode(places, ForeignValues(module, len(x)), True, True) as mode:
        module(x)
    before = module.first(x)
    [node] = [node for node in mode.record.nodes if isinstance(node, PointwiseNode)]
    slopes = node.pull_back(torch.ones(5, 6))
    torch.testing.assert_close(slopes, torch.where(before.detach() > 0, 1.0, 0.25), rtol=1e-2, atol=0)


def test_estimates_of_few_examples_are_near_the_gradient():
    hidden = (nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 32), nn.LayerNorm(32))
    network = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), *hidden, nn.Linear(32, 10))
    inputs, targets = torch.randn(4, 1, 12, 12), torch.randint(10, (4,))
    losses = nn.CrossEntropyLoss(reduction="none")
    estimate = neuro.ForwardGradient(network, threads=1)
    for _ in range(4):
        network.zero_grad()
        estimate.backward(losses, inputs, targets)
    made = {name: parameter.grad.flatten() for name, parameter in network.named_parameters()}
    network.zero_grad()
    losses(network(inputs), targets).mean().backward()
    for name, parameter in network.named_parameters():
        if name != "2.bias":  # in front of a batch norm a bias has no gradient
            assert F.cosine_similarity(made[name], parameter.grad.flatten(), dim=0) > 0.99999
