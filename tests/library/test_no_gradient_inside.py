"""Networks with parts that have no gradient: what stands in front of them is trained by forward passes all the same."""

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.model.int8_mlp import Int8MLP
from neuro_cli.model.spiking import SpikingMLP
from neuro_cli.model.ternary_cnn import TernaryLinear

cross_entropy = partial(F.cross_entropy, reduction="none")
WEIGHT = np.random.default_rng(0).normal(size=(4, 3))


def by_torch(x: Tensor) -> Tensor:
    return torch.tanh(x @ torch.from_numpy(WEIGHT).to(x.dtype))


def by_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.tanh(x.detach().numpy() @ WEIGHT).astype(str(x.dtype).removeprefix("torch.")))


def by_lists(x: Tensor) -> Tensor:
    return torch.tensor(np.tanh(np.array(x.tolist()) @ WEIGHT).tolist(), dtype=x.dtype)


def by_rows(x: Tensor) -> Tensor:
    result = torch.zeros(len(x), 3, dtype=x.dtype)
    for row in range(len(x)):
        for column, value in enumerate(np.tanh(np.array([float(number) for number in x[row]]) @ WEIGHT)):
            result[row, column] = float(value)
    return result


def by_pointers(x: Tensor) -> Tensor:
    """As a library of C does: it reads and writes memory."""
    kind = ctypes.c_double if x.dtype == torch.float64 else ctypes.c_float
    given = np.ctypeslib.as_array(ctypes.cast(x.contiguous().data_ptr(), ctypes.POINTER(kind)), (len(x), 4))
    result = torch.empty(len(x), 3, dtype=x.dtype)
    written = np.ctypeslib.as_array(ctypes.cast(result.data_ptr(), ctypes.POINTER(kind)), (len(x), 3))
    written[:] = np.tanh(given @ WEIGHT)
    return result


class ByFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return by_numpy(x)


@torch.library.custom_op("neuro_tests::tanh_product", mutates_args=())
def by_operator(x: Tensor) -> Tensor:
    return by_numpy(x)


class Inside(nn.Module):
    """A learned encoder, a part without a gradient, a learned head."""

    def __init__(self, box: Callable[[Tensor], Tensor], values: int = 3) -> None:
        super().__init__()
        self.encoder, self.head, self.box = nn.Linear(5, 4), nn.Linear(values, 3), box

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.box(torch.tanh(self.encoder(x))))


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(16, 5, generator=generator)
    return inputs, (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0).long()


BOXES = {
    "numpy": by_numpy, "lists": by_lists, "rows": by_rows, "pointers": by_pointers, "function": ByFunction.apply,
    "operator": lambda x: by_operator(x),  # the operator itself takes no copy
}  # fmt: skip


@pytest.mark.parametrize("box", BOXES)
def test_the_estimate_sees_through_a_black_box(box):
    """The encoder's part too, against torch's gradient of the same function."""
    torch.manual_seed(2)
    twin = Inside(by_torch)
    model = Inside(BOXES[box])
    model.load_state_dict(twin.state_dict())
    inputs, targets = examples()
    cross_entropy(twin(inputs), targets).mean().backward()
    estimate = neuro.ForwardGradient(model, draws=16, sigma=0.01, antithetic=True)
    for _ in range(8):
        estimate.backward(cross_entropy, inputs, targets)
    for (name, parameter), right in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert F.cosine_similarity(parameter.grad.flatten(), right.grad.flatten(), dim=0) > 0.9, name
        assert float(parameter.grad.norm() / 8) == pytest.approx(float(right.grad.norm()), rel=0.35), name


def first_class(x: Tensor) -> Tensor:
    return F.one_hot(x.argmax(1), 4).to(x.dtype)


STEPS: dict[str, Callable[[], nn.Module]] = {
    "argmax": lambda: Inside(first_class, 4),
    "sort": lambda: Inside(lambda x: x.sort(1)[0], 4),
    "integers": lambda: Inside(lambda x: (x * 8).to(torch.int32).to(x.dtype) / 8, 4),
    "ternary": lambda: nn.Sequential(nn.Linear(5, 16), nn.Tanh(), TernaryLinear(16, 16), nn.Linear(16, 3)),
    "int8": lambda: Int8MLP((1, 1, 5), [32], outputs=3),
    "spiking": lambda: SpikingMLP((1, 1, 5), [32], decay=0.5, threshold=1.0, steps=8, outputs=3),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_network_of_steps_learns_by_its_loss(kind):
    torch.manual_seed(1)
    model, (inputs, targets) = STEPS[kind](), examples()
    before = next(model.parameters()).detach().clone()
    inputs = inputs.sigmoid()[:, None, None] if kind in ("int8", "spiking") else inputs
    estimate = neuro.ForwardGradient(model, draws=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        losses.append(float(estimate.backward(cross_entropy, inputs, targets)))
        optimizer.step()
    assert np.mean(losses[-5:]) < 0.9 * losses[0]
    assert not torch.equal(next(model.parameters()), before)  # what stands in front of the steps has moved
