"""Parts that a program of kind ``held`` names: modules that hold weights in other ways, or compute them for each example."""

import functools
import types
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Vector(nn.Module):
    """A weight (I,) that multiplies; subclasses hold it in another way."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.w = size, nn.Parameter(1 + 0.3 * torch.randn(size))
        self.start()

    def start(self) -> None:
        """Set what a subclass holds."""

    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


class Partial(Vector):
    def start(self) -> None:
        self.f = functools.partial(torch.mul, self.w)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.f(x)
        return made


class Default(Vector):
    """A default argument holds the weight."""

    def start(self) -> None:
        def scaled(x: Tensor, w: Tensor = self.w) -> Tensor:
            return x * w

        self.f = scaled

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x)


class Closed(Vector):
    """A function inside of a function holds the weight."""

    def start(self) -> None:
        w = self.w

        def outer() -> Any:
            return lambda x: x * w

        self.f = [outer()]

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.f[0](x)
        return made


class Bound(Vector):
    """A bound method of another part, in a list."""

    def start(self) -> None:
        self.other = Vector(self.size)
        self.f = [self.other.forward, self.other.__call__]

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * (self.f[0](x) + self.f[1](x)) * self.w


@dataclass
class Holder:
    w: Tensor
    more: Any = None


class Object(Vector):
    """Objects of other kinds hold the weight."""

    def start(self) -> None:
        self.names = types.SimpleNamespace(w=self.w)
        self.queue = deque([self.w])
        self.holder = Holder(self.w, {"again": (self.w,)})

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x * self.names.w + self.queue[0] - self.holder.more["again"][0] * self.holder.w
        return made


class ByName(Vector):
    """Finds its weight by name, in several ways."""

    def forward(self, x: Tensor) -> Tensor:
        w = self.w * dict(self.named_parameters())["w"] + self._parameters["w"] - self.get_parameter("w")
        made: Tensor = x * w * attrgetter("w")(self).sign() + next(self.parameters()) * self.state_dict()["w"]
        return made


class Property(Vector):
    @property
    def scale(self) -> Tensor:
        return self.w.exp() / 2

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class CachedProperty(Vector):
    """Computes from its weight once in its life."""

    @functools.cached_property
    def scale(self) -> Tensor:
        return self.w.exp() / 2

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.to(x.dtype)


class Remembered(Vector):
    """A function with a memory, by the module itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x * _scale(self).to(x.dtype)


@functools.lru_cache(maxsize=64)
def _scale(part: Vector) -> Tensor:
    return part.w.exp() / 2


class OutOfTree(Vector):
    """A part in a list of Python is none of the module's: its weights are constants."""

    def start(self) -> None:
        self.parts = [nn.Linear(self.size, self.size)]

    def forward(self, x: Tensor) -> Tensor:
        part = self.parts[0]
        return F.linear(x, part.weight.to(x.dtype)) * self.w


class InThreads(Vector):
    def forward(self, x: Tensor) -> Tensor:
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(lambda part: part * self.w, [x, -0.5 * x]))
        return made[0] + made[1].tanh()


class Buffered(Vector):
    """Writes into a buffer that it made before (``out=``)."""

    def start(self) -> None:
        self.register_buffer("room", torch.zeros(0))

    def forward(self, x: Tensor) -> Tensor:
        if self.room.shape != x.shape or self.room.dtype != x.dtype:
            self.room = torch.zeros_like(x)
        torch.mul(x.detach(), self.w.detach(), out=self.room)
        return self.room + 0 * x


class Codebook(Vector):
    """Nearest rows of a table that moves to the means of what chose them."""

    def start(self) -> None:
        self.register_buffer("table", torch.randn(4, self.size))

    def forward(self, x: Tensor) -> Tensor:
        flat = (x * self.w).reshape(-1, self.size)
        chosen = torch.cdist(flat.detach(), self.table.to(flat.dtype)).argmin(1)
        made = self.table.to(flat.dtype)[chosen]
        hot = F.one_hot(chosen, 4).to(flat.dtype)
        means = hot.T @ flat.detach() / hot.sum(0).clamp(min=1)[:, None]
        self.table.lerp_(means.to(self.table.dtype), 0.1)
        return (flat + (made - flat).detach() * 0.5).view_as(x)


class Warming(Vector):
    """Does something else in its first calls."""

    def start(self) -> None:
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.w if self.calls < 3 else x * self.w.abs() + 0.1


class Power(Vector):
    """A norm by power iterations, whose vector is kept in a buffer."""

    def start(self) -> None:
        self.matrix = nn.Parameter(0.5 * torch.randn(self.size, self.size))
        self.register_buffer("u", F.normalize(torch.randn(self.size), dim=0))

    def forward(self, x: Tensor) -> Tensor:
        v = F.normalize(self.matrix.detach().T @ self.u.to(self.matrix.dtype), dim=0)
        self.u = F.normalize(self.matrix.detach() @ v, dim=0)
        return F.linear(x, self.matrix / (self.u @ self.matrix @ v)) * self.w


class Hyper(nn.Module):
    """Weights of each example's own, from the example."""

    def __init__(self, size: int, kind: int) -> None:
        super().__init__()
        self.size, self.kind, self.gate = size, kind, nn.Linear(size, size * size)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1, -2).mean(1) if x.dim() > 2 else x
        weights = self.gate(flat).unflatten(-1, (self.size, self.size)) / self.size
        if self.kind == 0:
            return torch.bmm(x.reshape(len(x), -1, self.size), weights).view_as(x)
        if self.kind == 1:
            return torch.einsum("b...i,bij->b...j", x, weights)
        if self.kind == 2:
            return torch.vmap(lambda row, w: row @ w)(x, weights)
        rows = x.reshape(1, -1, x[0].numel() // self.size, self.size).transpose(-1, -2).reshape(1, len(x) * self.size, -1)
        made = F.conv1d(rows, weights.reshape(len(x) * self.size, self.size, 1), groups=len(x))
        return made.view(len(x), self.size, -1).transpose(1, 2).reshape(x.shape)


class Modulated(nn.Module):
    """Convolution with a scale of each example's own, examples folded into channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.style = nn.Parameter(0.3 * torch.randn(channels, channels, 3, 3)), nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        b, c, h, w = x.shape
        weight = self.weight * (1 + self.style(x.mean((2, 3))))[:, None, :, None, None]
        weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-3).rsqrt()
        return F.conv2d(x.reshape(1, b * c, h, w), weight.view(b * c, c, 3, 3), padding=1, groups=b).view(b, c, h, w)


class Stacked(nn.Module):
    """Networks whose weights are stacked, called by ``vmap`` over ``functional_call``."""

    def __init__(self, size: int) -> None:
        super().__init__()
        base = nn.Linear(size, size)
        self.weight, self.bias = nn.Parameter(0.4 * torch.randn(3, size, size)), nn.Parameter(torch.zeros(3, size))
        self.call = lambda weight, bias, x: torch.func.functional_call(base, {"weight": weight, "bias": bias}, (x,))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = torch.vmap(self.call, (0, 0, None))(self.weight, self.bias, x)
        return made.tanh().mean(0)


class Equilibrium(nn.Module):
    """A fixed point: as many steps as the batch needs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        for _ in range(12):
            new = torch.tanh(0.3 * self.inner(z) + x)
            if torch.allclose(new, z, rtol=0, atol=0.05):
                break
            z = new
        return z


class Adaptive(Vector):
    """Each example has as many steps as it needs."""

    def forward(self, x: Tensor) -> Tensor:
        flat, active = x.flatten(1).clone(), torch.ones(len(x), dtype=torch.bool)
        for _ in range(4):
            active = active & (flat.abs().amax(1) > 1)
            flat[active] = flat[active] * 0.7
            if not active.any():
                break
        return flat.view_as(x) * self.w


class Called(Vector):
    """As many calls of a part as a number of the batch says."""

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(int(x.abs().amax().clamp(max=3))):
            x = torch.tanh(x * self.w)
        return x


class GhostNorm(nn.Module):
    """Batch norm of each half of the batch."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.norm(part.reshape(-1, x.shape[-1])).view_as(part) for part in x.chunk(2)])


class Prototypes(Vector):
    """Rows of a parameter that are put to the batch, or before each sequence."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.size)
        both = torch.cat([flat, self.w[None]])
        return (both - both.mean(0))[:-1].view_as(x)


class Energy(nn.Module):
    """Minus the derivative of a scalar energy, computed within the pass."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, 4)

    @torch.enable_grad()
    def forward(self, x: Tensor) -> Tensor:
        point = x.detach().clone().requires_grad_()
        energy = self.inner(point).square().sum()
        return -torch.autograd.grad(energy, point)[0].detach()


class Attentive(nn.Module):
    """Attention whose mask leaves some rows without a key; their NaN is replaced."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(size, 3 * size)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inner(x).chunk(3, -1)
        mask = (x[..., 0] > 0)[:, None, :].expand(-1, x.shape[1], -1)
        scores = (q @ k.transpose(1, 2)).masked_fill(~mask, -torch.inf).softmax(-1)
        return torch.where(scores.isnan(), torch.zeros_like(scores), scores) @ v


class InInference(Vector):
    @torch.inference_mode()
    def forward(self, x: Tensor) -> Tensor:
        return x * self.w


class Complex(Vector):
    """A complex state that a recurrence turns."""

    def forward(self, x: Tensor) -> Tensor:
        turn = torch.polar(torch.sigmoid(self.w), self.w)
        state = torch.zeros_like(x[..., :], dtype=turn.dtype)
        for _ in range(2):
            state = state * turn + x
        return state.real + state.abs() * 0.1 + torch.view_as_real(state.conj())[..., 1]


class OwnDouble(Vector):
    """A part in float64 inside of a pass in float32."""

    def forward(self, x: Tensor) -> Tensor:
        wide = (x.double() * self.w.double()).cumsum(-1)
        return (wide / wide.shape[-1]).to(x.dtype)


class OldNorm(nn.Module):
    """Weight norm as a hook before the pass, as torch had it first."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__()
        self.inner = getattr(nn.utils, name)(nn.Linear(size, size))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.inner(x)
        return made


class Twins(nn.Module):
    """One layer under two names, and one weight in two layers."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.one = nn.Linear(size, size)
        self.two, self.three = self.one, nn.Linear(size, size)
        self.three.weight = self.one.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(x))) + F.linear(x, self.three.weight.T, self.three.bias)


class Sliced(nn.Module):
    """Parts of one flat parameter in several shapes, sliced by each pass."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.flat = size, nn.Parameter(0.3 * torch.randn(size * size + 2 * size))

    def forward(self, x: Tensor) -> Tensor:
        weight, gain, shift = self.flat.split([self.size**2, self.size, self.size])
        made = F.linear(x, weight.view(self.size, self.size), shift)
        return made * gain + x @ self.flat.as_strided((self.size, self.size), (1, self.size), self.size)


class Traced(nn.Module):
    """A part that torch traced to a graph."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(size, size), nn.Tanh(), nn.LayerNorm(size)))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.inner(x)
        return made


class Changing(nn.Module):
    """A hook that refers to another part changes outputs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner, self.gain = nn.Linear(size, size), Vector(size)
        gain = self.gain
        self.inner.register_forward_hook(lambda part, given, made: gain(made) + part.bias)
        self.inner.register_forward_hook(lambda part, given, made: made + given[0].mean(0))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.inner(x)
        return made


def guarded(x: Tensor) -> Tensor:
    """Take a branch that is NaN where the other one is chosen."""
    return torch.where(x > 0, torch.log(x.abs().masked_fill(x <= 0, torch.nan)) * 0.3, torch.sqrt(-x).nan_to_num(0.2))


def chosen_rows(x: Tensor, w: Tensor) -> Tensor:
    """Scale the examples with a positive first number, maybe none."""
    flat = x.flatten(1).clone()
    rows = flat[:, 0] > 0.4
    flat[rows] = flat[rows] * w.sum()
    return flat.view_as(x)


def rows_of_most(x: Tensor, w: Tensor) -> Tensor:
    """Scale the half of all rows of the batch with the largest numbers."""
    flat = x.reshape(-1, x.shape[-1])
    places = flat.abs().sum(-1).topk((len(flat) + 1) // 2).indices
    return flat.index_put((places,), flat[places] * w).view_as(x)


def straight_through(x: Tensor) -> Tensor:
    return x + (x.round() - x).detach()


def hard(x: Tensor) -> Tensor:
    soft = F.softmax(x, -1)
    return F.one_hot(soft.argmax(-1), x.shape[-1]).to(x.dtype) - soft.detach() + soft


class Between(nn.Module):
    """A weight that passes through another layer, or serves as an input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.two(torch.tanh(self.one.weight)), self.one(self.two.bias))
