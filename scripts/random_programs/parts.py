"""Parts that a random program's source names: functions and layers that people write, with state of Python among them."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

SEEN = {"calls": 0}  # state of the whole process


@dataclass
class Made:
    out: Tensor
    hidden: Tensor


class Pair(NamedTuple):
    out: Tensor
    hidden: Tensor


def logits(made: Any) -> Tensor:
    """Return the outputs (B, 3) of whatever form a module gives."""
    if isinstance(made, dict):
        made = made["out"]
    if isinstance(made, Made | Pair):
        made = made.out
    result: Tensor = made[0] if isinstance(made, tuple) else made
    return result


class Sign(torch.autograd.Function):
    """Sign with a straight-through gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign() * 0.5

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Scaled(torch.autograd.Function):
    """Product with a weight (I,), computed by a function of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        return x * weight.tanh()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class Own(nn.Linear):
    """Linear layer of a class of its own."""

    def forward(self, input: Tensor) -> Tensor:
        return 0.7 * super().forward(input) - 0.1


class Tan(nn.Tanh):
    def forward(self, input: Tensor) -> Tensor:
        return 1.5 * super().forward(input)


class Squared(nn.Module):
    """Parametrisation of a weight."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.abs()


def squared(layer: nn.Linear) -> nn.Module:
    return parametrize.register_parametrization(layer, "bias", Squared())


def pruned(layer: nn.Linear) -> nn.Linear:
    prune.l1_unstructured(layer, "weight", 0.3)
    layer.weight = layer.weight.detach()  # which can be copied; a pass computes it
    return layer


def half_frozen(layer: nn.Linear) -> nn.Linear:
    layer.weight.requires_grad_(False)
    return layer


def hooked(part: nn.Module) -> nn.Module:
    part.register_forward_hook(lambda _, __, made: made * 1.25)
    return part


def prehooked(part: nn.Module) -> nn.Module:
    part.register_forward_pre_hook(lambda _, given: (given[0] * 0.75,))
    return part


def own_call(layer: nn.Linear) -> nn.Linear:
    layer.forward = MethodType(lambda self, x: F.linear(x, 2 * self.weight, self.bias), layer)  # type: ignore[method-assign]
    return layer


def of_zeros(layer: nn.Linear) -> nn.Linear:
    layer.weight.data.zero_()
    return layer


def in_columns(layer: nn.Linear) -> nn.Linear:
    layer.weight = nn.Parameter(layer.weight.data.T.contiguous().T)
    return layer


def with_nan(layer: nn.Linear) -> nn.Linear:
    """A weight of the layer is not finite."""
    layer.weight.data[0, 0] = torch.inf
    return layer


def doubling(layer: nn.Linear) -> nn.Linear:
    """A layer whose class is changed after it was made."""
    layer.__class__ = Own
    return layer


def turned(body: nn.Sequential, x: Tensor) -> Tensor:
    """Call the parts of ``body`` by themselves."""
    for part in body:
        x = part(x)
    return x


class Called(nn.Module):
    """Layer that counts its calls and scales by a small number of them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(x) * (1 + 0.1 * (self.calls % 3))


class History(nn.Module):
    """Layer that keeps its outputs and adds the mean of those so far."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.kept.append(x.detach())
        return x + 0.1 * self.kept[0]


class Cached(nn.Module):
    """Layer that computes its weight once for each of its inputs' lengths, as those that keep positions do."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.cache = nn.Parameter(0.3 * torch.randn(size)), dict[int, Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        if len(x) not in self.cache:
            self.cache[len(x)] = self.weight * torch.arange(1, len(self.weight) + 1, dtype=x.dtype) / len(self.weight)
        return x * self.cache[len(x)].to(x.dtype)


class Lazily(nn.Module):
    """Layer that makes a table at its first call."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None or self.table.dtype != x.dtype:
            self.table = torch.linspace(0, 1, x.shape[-1], dtype=x.dtype)
        return x + self.table


class Meets(nn.Module):
    """Layer that remembers the largest number that it met."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.largest = max(self.largest, float(x.detach().abs().max()))
        return x / (1 + self.largest)


def globally(x: Tensor) -> Tensor:
    """Count calls for the whole process, without an effect on numbers."""
    SEEN["calls"] += 1
    return x * 1.0


def exactly(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply a layer of its own type."""
    return F.linear(x.to(layer.weight.dtype), layer.weight, layer.bias).to(x.dtype)


def derivative(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return the derivative of the sum of ``function`` at ``x``, by autograd within a pass without gradients."""
    with torch.enable_grad():
        point = x.detach().requires_grad_()
        return torch.autograd.grad(function(point).sum(), point)[0]


def halting(x: Tensor, layer: nn.Module) -> Tensor:
    """Apply ``layer`` until the mean of its squares is small."""
    for _ in range(3):
        if x.square().mean() < 0.05:
            break
        x = torch.tanh(layer(x))
    return x


def by_row(x: Tensor, layer: nn.Module) -> Tensor:
    """Apply ``layer`` to one example after the other."""
    return torch.stack([layer(row[None])[0] for row in x])


def recurrent(x: Tensor, cell: nn.Module, size: int) -> Tensor:
    """Run a cell over x (B, T, I); returns its last state."""
    state = x.new_zeros(len(x), size)
    for step in x.unbind(1):
        state = cell(step, state)
    return state


def packed(x: Tensor, layer: nn.RNNBase, least: int) -> Tensor:
    """Run a recurrent layer over sequences of unlike lengths, which depend on the first number of each example."""
    lengths = (x[:, 0, 0] > 0).long() * (x.shape[1] - least) + least
    given = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(layer(given)[0], batch_first=True, total_length=x.shape[1])[0]


def places(x: Tensor, count: int) -> Tensor:
    """Return indices in [0, count) from numbers."""
    return (x.detach().float().tanh() * count / 2 + count / 2).floor().long().clamp(0, count - 1)


# fitnesses of a batch: some look at several examples
def contrast(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return values for examples by their distances from each other."""
    outputs = logits(module(inputs))
    return -F.cross_entropy(outputs @ outputs.T, torch.arange(len(outputs)) % len(outputs), reduction="none")


def centred(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    outputs = logits(module(inputs))
    return -(outputs - outputs.mean(0)).square().mean(1)


def ranked(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    outputs = logits(module(inputs))[:, 0]
    return -F.softplus(outputs.roll(1) - outputs) * (targets > 0)


def neighbours(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return minus the squares of differences from the next example's outputs."""
    outputs = logits(module(inputs))
    return -(outputs - outputs.flip(0)).square().mean(1)


def penalised(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return values with a penalty on the parameters."""
    penalty = torch.stack([value.square().sum() for value in module.parameters()]).sum()
    return -F.cross_entropy(logits(module(inputs)), targets, reduction="none") - 0.01 * penalty


def twice(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return values of two calls."""
    return -(logits(module(inputs)) - logits(module(-inputs if inputs.is_floating_point() else inputs))).square().mean(1)


def accuracy(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    made = logits(module(inputs))
    return (made.argmax(1) == targets).to(made.dtype) + 0.01 * made.double().mean(1)


def balanced(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return values weighted by how many examples have a class."""
    weights = torch.bincount(targets, minlength=3).clamp(min=1).double().reciprocal()
    return -F.cross_entropy(logits(module(inputs)).double(), targets, reduction="none") * weights[targets]


FITNESSES = (contrast, centred, ranked, neighbours, penalised, twice, accuracy, balanced)
