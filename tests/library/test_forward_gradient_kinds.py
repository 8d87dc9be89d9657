"""The estimate of every kind of layer has autograd's gradient as its mean, within 4 standard errors; statistics stay."""

import copy
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.errors import UserError

ESTIMATES = 12


class Last(nn.Module):
    """A module of which the last step of each example counts."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        made = self.inner(x, x, x) if isinstance(self.inner, nn.MultiheadAttention) else self.inner(x)
        return made[0][:, -1]


class Whole(nn.Module):
    """A layer whose outputs are multiplied by whole numbers, which have no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.register_buffer("scale", torch.tensor([1, 2, -1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.scale + torch.tensor(1)


class Fourier(nn.Module):
    """A product with real and imaginary parts that are learnt, as in spherical and Fourier neural operators."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.parts = nn.Linear(5, 6), nn.Parameter(torch.randn(4, 4, 2))

    def forward(self, x: Tensor) -> Tensor:
        modes = torch.fft.rfft(torch.tanh(self.layer(x))) @ torch.view_as_complex(self.parts).conj()
        return torch.fft.irfft(modes, 6)


class Contiguous(torch.autograd.Function):
    """A function with a derivative of its own that returns its input, as torch-harmonics has it."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.contiguous()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(Contiguous.apply(torch.tanh(self.first(x))))


class TiedByFunction(nn.Module):
    """A head that is a function of another layer's weight, as x-transformers ties its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)
        self.head = lambda x: x @ self.layer.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x)))


IMAGE, STEPS = (4, 6, 6), (5, 4)
KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(5, 3), (5,)),
    "whole_numbers": (Whole, (5,)),
    "complex": (Fourier, (5,)),
    "wrapped": (Wrapped, (5,)),
    "tied_by_function": (TiedByFunction, (5,)),
    "convolution": (lambda: nn.Conv2d(4, 3, 3), IMAGE),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE),
    "embedding": (lambda: nn.Embedding(7, 3), ()),
    "layer_norm": (lambda: nn.LayerNorm(4), STEPS),
    "rms_norm": (lambda: nn.RMSNorm(4), STEPS),
    "group_norm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "batch_norm": (lambda: nn.BatchNorm2d(4), IMAGE),
    "attention": (lambda: Last(nn.MultiheadAttention(4, 2, batch_first=True)), STEPS),
    "gru": (lambda: Last(nn.GRU(4, 3, batch_first=True)), STEPS),
    "lstm": (lambda: Last(nn.LSTM(4, 3, batch_first=True)), STEPS),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(4, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(147, 3)), IMAGE),
    "network": (lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), IMAGE),
}
# predictions of one example's loss leave out what its noise does to the others: a bias that the page names
COUPLED = {("batch_norm", True)}


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return (torch.tanh(outputs.flatten(1)) - targets[:, None]).square().mean(1)


REFUSED = {("wrapped", True)}  # torch cannot go back through what no mode sees


@pytest.mark.parametrize(("kind", "control_variates"), sorted({*product(KINDS, (False, True))} - COUPLED - REFUSED))
def test_the_mean_of_estimates_is_the_gradient_of_autograd(kind, control_variates):
    make, shape = KINDS[kind]
    torch.manual_seed(5)
    model = make()
    inputs = torch.randn(6, *shape) if shape else torch.randint(7, (6, 4))
    targets = torch.randn(6)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    options = {"control_variates": control_variates, "correction": "always", "antithetic": True, "sigma": 0.01, "threads": 1}
    estimate = neuro.ForwardGradient(model, draws=24, **options)
    made = []
    for _ in range(ESTIMATES):
        model.zero_grad()
        estimate.backward(losses, inputs, targets)
        made.append(torch.cat([parameter.grad.flatten().double() for parameter in model.parameters()]))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())  # statistics of batch norm too
    model.zero_grad()
    losses(model(inputs), targets).mean().backward()
    right = torch.cat([parameter.grad.flatten().double() for parameter in model.parameters()])
    estimates = torch.stack(made)
    along = estimates @ right / right.square().sum()
    assert abs(float(along.mean()) - 1) < 4 * float(along.std()) / ESTIMATES**0.5 + 0.02  # float32 and the noise's size
    error = (estimates.mean(0) - right) / (estimates.std(0) / ESTIMATES**0.5 + 0.01 * right.abs().max())
    assert float(error.square().mean()) < 2.5  # Student's t with 11 degrees of freedom has 11 / 9
    assert F.cosine_similarity(estimates.mean(0), right, dim=0) > 0.6


def test_control_variates_are_refused_where_torch_does_not_show_what_a_function_returns():
    inputs, targets = torch.randn(6, 5), torch.randn(6)
    estimate = neuro.ForwardGradient(Wrapped(), threads=1)  # "auto": without them
    estimate.backward(losses, inputs, targets)
    with pytest.raises(UserError, match="a function with a derivative of its own returns its input"):
        neuro.ForwardGradient(Wrapped(), threads=1, control_variates=True).backward(losses, inputs, targets)


class Root(nn.Module):
    """A root whose argument larger noise makes negative, and which refuses it as distributions do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        made = ((self.layer(x) * 0.0 + 1.0).square() - 0.97).sqrt() + self.layer(x)
        if not made.isfinite().all():
            raise ValueError(f"{made} is no root")
        return made


def test_a_network_that_larger_noise_breaks_is_tried_with_less():
    torch.manual_seed(3)
    model, inputs, targets = Root(), torch.randn(6, 5), torch.randn(6)
    loss = neuro.ForwardGradient(model, draws=4, threads=1).backward(losses, inputs, targets)
    torch.testing.assert_close(loss, losses(model(inputs), targets).mean().detach())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_packed_sequences_are_refused_by_name():
    class Packed(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.inner = kind(4, 3, batch_first=True)

        def forward(self, x):
            lengths = torch.arange(len(x)).remainder(3) + 1
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.inner(packed)[0], batch_first=True)[0][:, 0]

    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        with pytest.raises(UserError, match="a packed sequence"):
            neuro.ForwardGradient(Packed(kind), threads=1).backward(losses, torch.randn(6, 5, 4), torch.randn(6))


def test_statistics_of_batch_norm_stay_in_a_network_with_writes_in_place():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(48, 3))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    inputs, targets = torch.randn(6, 1, 6, 6), torch.randint(3, (6,))
    estimate = neuro.ForwardGradient(model, draws=1, threads=1)
    for _ in range(2):
        estimate.backward(lambda outputs, classes: F.cross_entropy(outputs, classes, reduction="none"), inputs, targets)
    assert model.training
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name
    F.cross_entropy(model(inputs), targets).backward()
    assert not torch.equal(model[1].running_mean, before["1.running_mean"])  # the user's own passes keep statistics


class Scaled(NamedTuple):
    """A weight in two parts, as quantised layers of brevitas have it: torch asks it what a call does."""

    value: Tensor
    scale: Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func(*(part.value * part.scale if isinstance(part, cls) else part for part in args), **(kwargs or {}))


class ScaledLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, Scaled(self.weight, torch.full((), 0.5)), self.bias)


def test_a_weight_in_two_parts_is_estimated():
    torch.manual_seed(1)
    model, x = nn.Sequential(ScaledLinear(6, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(8, 6)
    reference = copy.deepcopy(model)
    exact = reference(x).square().sum(1).mean()
    exact.backward()
    with neuro.ForwardGradient(model, draws=64, threads=1) as estimate:
        loss = estimate.backward(lambda outputs: outputs.square().sum(1), x)
    torch.testing.assert_close(loss, exact.detach())
    for made, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        assert F.cosine_similarity(made.grad.flatten(), wanted.grad.flatten(), 0) > 0.9
