"""Parts that a rare program's source names: layers with hooks, caches, classes and functions of their own."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

TABLE: dict[str, Tensor] = {}  # of the script, which hooks fill
LOSSES: list[Tensor] = []


class Layer(nn.Module):
    """Linear layer of as many outputs, to which subclasses add."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.start()

    def start(self) -> None:
        """Set what a subclass keeps."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x))


class Tapped(Layer):
    """A hook that refers to the module leaves values in it."""

    def start(self) -> None:
        self.seen: dict[str, Tensor] = {}
        self.inner.register_forward_hook(lambda _, __, made: self.seen.update(made=made))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.3 * self.seen["made"].square()


class Tabled(Layer):
    """A hook that refers to the module's table leaves values in it."""

    def start(self) -> None:
        self.seen = seen = dict[str, Tensor]()
        self.inner.register_forward_hook(lambda _, __, made: seen.update(made=made))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.3 * self.seen["made"].cos()


class Outside(Layer):
    """A hook leaves values in a table of the script."""

    def start(self) -> None:
        self.inner.register_forward_hook(lambda _, __, made: TABLE.update(made=made))

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + 0.3 * TABLE["made"].cos()


class Auxiliary(Layer):
    """A loss of the layer's own, by way of a list of the script, as balances of experts."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        LOSSES.append(y.square().mean())
        return y + LOSSES.pop()


class Lambda(Layer):
    def start(self) -> None:
        self.gain = nn.Parameter(torch.ones(1))
        self.act = lambda x: x * self.gain + self.inner.bias

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.act(super().forward(x))
        return y


class Prehooked(Layer):
    """Hooks that change inputs by name and by place, and one of gradients."""

    def start(self) -> None:
        self.register_forward_pre_hook(lambda _, args, kwargs: ((args[0] * 0.5,), kwargs), with_kwargs=True)
        self.inner.register_forward_pre_hook(lambda part, args: (args[0] + part.bias,))
        self.inner.register_full_backward_hook(lambda *_: None)


class Marked(Tensor):
    """Tensor of a class of its own, which operations keep."""


class Subclassed(Layer):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x.as_subclass(Marked) * 1.0)
        return y.as_subclass(Tensor)


class Loading(Layer):
    """Names of a state of its own, and a copy by a method of its own."""

    def start(self) -> None:
        self._register_state_dict_hook(lambda part, state, prefix, _: state)
        self.register_load_state_dict_post_hook(lambda part, keys: None)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()


class ClassState(Layer):
    """The class keeps the last values of all."""

    last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        type(self).last = super().forward(x)
        y = super().forward(x.flip(-1))
        assert type(self).last is not None
        return y + type(self).last


class Stepped(Layer):
    """Counts its calls in a buffer, which decides nothing."""

    def start(self) -> None:
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return super().forward(x) + 0 * self.calls.to(x.dtype)


class KeyCache(Layer):
    """Attention step by step, with keys written to a buffer in place."""

    def __init__(self, length: int, size: int) -> None:
        super().__init__(size)
        self.length = length
        self.register_buffer("keys", torch.zeros(1, length, size), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.keys.shape[0] != len(x) or self.keys.dtype != x.dtype:
            self.keys = x.new_zeros(len(x), self.length, x.shape[-1])
        outputs = []
        for place in range(self.length):
            self.keys[:, place] = self.inner(x[:, place])
            past = self.keys[:, : place + 1]
            outputs.append(F.scaled_dot_product_attention(x[:, place : place + 1], past, past))
        return torch.cat(outputs, 1)


class ByVersion(Layer):
    """Computes a weight when its parameter's version is another one."""

    def start(self) -> None:
        self.version, self.made = -1, torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        if self.inner.weight._version != self.version or self.made.dtype != x.dtype:
            self.version, self.made = self.inner.weight._version, self.inner.weight.detach().sign() * 0.3
        return F.linear(x, self.made, self.inner.bias)


class Packed(Layer):
    """Fuses a scale into the weight in evaluation mode."""

    def start(self) -> None:
        self.scale, self.fused = nn.Parameter(torch.ones(1)), None

    def train(self, mode: bool = True) -> nn.Module:
        self.fused = None if mode else (self.inner.weight * self.scale.exp()).detach()
        return super().train(mode)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.inner.weight * self.scale.exp() if self.fused is None else self.fused, self.inner.bias)


class Doubled(torch.autograd.Function):
    """Product with a weight, with a map of its own."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return 2 * x * weight.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return 2 * grad * weight.sin(), 2 * (grad * x * weight.cos()).flatten(0, -2).sum(0)

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weight: Tensor) -> tuple[Tensor, int]:
        x = x.expand(info.batch_size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        weight = weight.expand(info.batch_size, *weight.shape) if in_dims[1] is None else weight.movedim(in_dims[1], 0)
        return Doubled.apply(x, weight.reshape(len(weight), *[1] * (x.dim() - 2), -1)), 0


class Ruled(torch.autograd.Function):
    """Steps with a straight-through gradient, mapped by torch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return (x * 2).round() / 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def cached(x: Tensor, layer: nn.Module) -> Tensor:
    """Call a layer twice with its computed weight cached."""
    with parametrize.cached():
        return torch.tanh(layer(torch.tanh(layer(x))))


@torch.jit.script
def scripted(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(x * weight) + weight.mean()


def looped(x: Tensor) -> Tensor:
    """Halve numbers until all are small, as often as the largest one needs."""
    while x.abs().max() > 2:
        x = x * 0.7
    return x


def ragged(x: Tensor, layer: nn.Module) -> Tensor:
    """Run a recurrent layer over as many steps as each example has positive numbers at first places."""
    lengths = (x[..., 0] > 0).sum(1).clamp(min=1)
    rows = [
        F.pad(layer(row[None, :length])[0][0], (0, 0, 0, x.shape[1] - length))
        for row, length in zip(x, lengths.tolist(), strict=True)
    ]
    return torch.stack(rows)


def nested(x: Tensor) -> Tensor:
    """Pad sequences of unlike lengths by a nested tensor."""
    flat = x.flatten(1)
    lengths = ((flat[:, 0] > 0).long() + flat.shape[1] - 1).tolist()
    made = torch.nested.nested_tensor([row[:length] for row, length in zip(flat, lengths, strict=True)])
    return torch.nested.to_padded_tensor(made * 2.0, 0.0, (len(flat), flat.shape[1])).view_as(x)


def sorted_experts(x: Tensor, weights: Tensor) -> Tensor:
    """Scale rows by vectors of experts (E, I), with rows sorted by expert and put back."""
    flat = x.reshape(-1, x.shape[-1])
    experts, places = (flat @ weights.T).argmax(-1).sort()
    made = flat[places] * weights[experts]
    return torch.zeros_like(flat).index_copy_(0, places, made).view_as(x)


def bags(x: Tensor, table: Tensor) -> Tensor:
    """Sum rows of a table with a weight for each number, and scale by their means."""
    flat = x.reshape(-1, x.shape[-1])
    index = (flat.detach().float().tanh() * 3 + 3).floor().long().clamp(0, 5)
    made = F.embedding_bag(index, table.to(x.dtype), per_sample_weights=flat, mode="sum", padding_idx=1)
    return x + made.view_as(x) * 0.3


def halved(x: Tensor) -> Tensor:
    """Half precision inside of a pass, of numbers that it has exactly."""
    with torch.autocast("cpu", torch.bfloat16):
        return (x.sign() @ torch.eye(x.shape[-1], dtype=x.dtype)).to(x.dtype) * 0.1 + x
