"""Perturbed passes of modules that nobody here foresaw: each answer is that of a plain loop over members, in float64."""

import dataclasses
import logging
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.pairwise import each_pair
from torch import Tensor, nn

import neuro_cli as neuro

MEMBERS, SIGMA = 8, 0.2
torch.manual_seed(0)


class Use(nn.Module):
    """Layers and parameters of its own, used by a function."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            own = nn.Parameter(torch.randn(part)) if isinstance(part, tuple) else part
            self.register_module(name, own) if isinstance(own, nn.Module) else self.register_parameter(name, own)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Answer:
    logits: Tensor
    loss: Tensor | None = None


class Store:
    """A cache of keys, as no one knows it."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class Adapter(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1.0


def adapted() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0)
    layer.linear1 = Adapter(8, 12)
    return nn.TransformerEncoder(layer, 2).eval()


def early(own: Any, x: Tensor) -> Tensor:
    h = torch.tanh(own.a(x))
    return own.b(h) if h.abs().mean() > 0.45 else h


def looped(own: Any, x: Tensor) -> Tensor:
    h = own.a(x)
    while float(h.square().mean()) > 0.2:
        h = h * 0.5
    return h


def selected(own: Any, x: Tensor) -> Tensor:
    h = own.a(x)
    return torch.where(h.mean() > 0, h, own.b(h))


def routed(own: Any, x: Tensor) -> Tensor:
    h, made = own.a(x), torch.zeros(len(x), 5, dtype=x.dtype)
    chosen = h[:, 0] > 0
    made[chosen] = own.b(h[chosen])
    return made


def cached(own: Any, x: Tensor) -> Tensor:
    if "twice" not in own.__dict__:
        own.twice = own.w * 2
    return x @ own.twice


def remembered(own: Any, x: Tensor) -> Tensor:
    if not hasattr(own, "table"):
        own.table = {}
    if "w" not in own.table:
        own.table["w"] = own.w * 2
    return x @ own.table["w"]


def lin(inside: int = 5, out: int = 5) -> nn.Module:
    return nn.Linear(inside, out)


X, Y, T = torch.randn(8, 5), torch.randn(8, 5), torch.randn(8, 5, 8)
WIDE, LONG = torch.randn(16, 5), torch.randn(8, 8, 5)
KEEP = torch.zeros(8, 5, dtype=torch.bool)
KEEP[:, 3:] = True
CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "two_inputs": (lambda: Use(lambda own, x, y: own.a(x) + own.b(y), a=lin(), b=lin()), (X, Y), {}),
    "keywords": (lambda: Use(lambda own, *, x, y: own.a(x) * own.b(y), a=lin(), b=lin()), (), {"x": X, "y": Y}),
    "dictionary": (lambda: Use(lambda own, of: {"z": own.a(of["x"]) + of["y"][0]}, a=lin()), ({"x": X, "y": [Y]},), {}),
    "bilinear": (lambda: nn.Bilinear(5, 5, 3), (X, Y), {}),
    "attention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), (T, T.flip(1), T * 0.5), {}),
    "transformer": (lambda: nn.Transformer(8, 2, 1, 1, 12, 0.0, batch_first=True), (T, T.flip(1)), {}),
    "cell_state": (lambda: nn.LSTMCell(5, 5), (X, (Y, X * 0.5)), {}),
    "query": (lambda: Use(lambda own, x: own.a(own.q.expand(len(x), -1, -1)) @ x, q=(1, 3, 5), a=lin()), (T,), {}),
    "code": (lambda: Use(lambda own, x: x * own.a(own.q), q=(5,), a=lin()), (X,), {}),
    "normed_query": (lambda: Use(lambda own, x: own.a(own.q) @ x, q=(3, 5), a=nn.LayerNorm(5)), (T,), {}),
    "convolved_query": (lambda: Use(lambda own, x: own.a(own.q).mean() * x, q=(1, 2, 5, 5), a=nn.Conv2d(2, 3, 3)), (X,), {}),
    "first_state": (
        lambda: Use(
            lambda own, x: own.a(x, own.h.expand(1, len(x), 4).contiguous())[0], h=(1, 1, 4), a=nn.GRU(8, 4, batch_first=True)
        ),
        (T,),
        {},
    ),
    "learned_query": (
        lambda: Use(
            lambda own, x: own.a(own.q.expand(len(x), -1, -1), x, x)[0],
            q=(1, 2, 8),
            a=nn.MultiheadAttention(8, 2, batch_first=True),
        ),
        (T,),
        {},
    ),
    "standardised": (
        lambda: Use(
            lambda own, x: F.linear(x, F.batch_norm(own.w.reshape(1, 4, -1), None, None, training=True).view_as(own.w)), w=(4, 5)
        ),
        (X,),
        {},
    ),
    "branch": (lambda: Use(early, a=lin(), b=lin()), (X * 1.5,), {}),
    "loop": (lambda: Use(looped, a=lin()), (X,), {}),
    "select": (lambda: Use(selected, a=lin(), b=lin()), (X,), {}),
    "routed": (lambda: Use(routed, a=lin(), b=lin()), (X,), {}),
    "time_first": (lambda: Use(lambda own, x: own.a(x.transpose(0, 1)).transpose(0, 1), a=lin()), (LONG,), {}),
    "folded": (
        lambda: Use(lambda own, x: own.a(x.transpose(0, 1).flatten(0, 1)).unflatten(0, (8, -1)).transpose(0, 1), a=lin()),
        (LONG,),
        {},
    ),
    "doubled": (lambda: Use(lambda own, x: own.a(torch.cat([x, x.flip(1)]))[: len(x)], a=lin()), (X,), {}),
    "rolled": (lambda: Use(lambda own, x: own.a(x.roll(1, 0)), a=lin()), (WIDE,), {}),
    "table": (lambda: Use(lambda own, x: x @ own.a(torch.eye(5, dtype=x.dtype)[:5]), a=lin()), (X,), {}),
    "table_of_rows": (lambda: Use(lambda own, x: x @ own.a(torch.eye(8, dtype=x.dtype)), a=lin(8, 5)), (T[:, 0],), {}),
    "scripted": (lambda: nn.Sequential(torch.jit.script(lin()), nn.Linear(5, 3)), (X,), {}),
    "statistics": (lambda: Use(lambda own, x: own.a(x - x.mean(0)), a=lin()), (WIDE,), {}),
    "micro_batches": (lambda: Use(lambda own, x: torch.cat([own.a(part) for part in x.split(1)]), a=lin()), (WIDE,), {}),
    "cache": (lambda: Use(cached, w=(5, 4)), (X,), {}),
    "table_cache": (lambda: Use(remembered, w=(5, 4)), (X,), {}),
    "namedtuple": (lambda: Use(lambda own, x: Pair(own.a(x), (own.b(x), None, 3)), a=lin(), b=lin()), (X,), {}),
    "dataclass": (lambda: Use(lambda own, x: Answer(own.a(x)), a=lin()), (X,), {}),
    "number": (lambda: Use(lambda own, x: Answer(own.a(x), own.a(x).square().mean()), a=lin()), (WIDE,), {}),
    "store": (lambda: Use(lambda own, x: (own.a(x), Store(x)), a=lin()), (X,), {}),
    "padded_encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.0), 2).eval(),
        (T,),
        {"src_key_padding_mask": KEEP},
    ),
    "adapter": (adapted, (T,), {}),
    "dropped_norm": (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), (WIDE,), {}),
    "zeros_then_assign": (lambda: Use(lambda own, x: assigned(own, x), a=lin()), (X,), {}),
    "even_kernel": (lambda: nn.Conv1d(5, 4, 2, padding="same"), (T,), {}),
    "large": (lambda: Use(lambda own, x: x + own.w.sum(0)[:5], w=(600, 500)), (X,), {}),
}


def assigned(own: Any, x: Tensor) -> Tensor:
    made = torch.zeros(len(x), 6, dtype=x.dtype)
    made[:, 1:] = own.a(x)
    return made


def tensors_of(made: Any) -> list[Tensor]:
    if isinstance(made, Answer):
        made = [made.logits, made.loss]
    if isinstance(made, Tensor):
        return [made]
    values = made.values() if isinstance(made, dict) else made if isinstance(made, list | tuple) else ()
    return [tensor for value in values for tensor in tensors_of(value)]


def loop(net: nn.Module, noise: Any, args: Any, kwargs: Any, shared: bool) -> list[Tensor]:
    """Outputs of single members one after the other, each by a copy of its own, with torch's one operation for a layer off."""
    count = len(next(value for value in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(value, Tensor)))
    examples, outputs, state = count if shared else count // MEMBERS, [], {k: v.clone() for k, v in net.state_dict().items()}
    torch.backends.mha.set_fastpath_enabled(False)
    for member, row in enumerate(np.eye(MEMBERS)):

        def own(value: Any, member: int = member) -> Any:
            whole = shared or not isinstance(value, Tensor) or len(value) != count
            return value if whole else value[member * examples : (member + 1) * examples]

        step, kept = noise.combine(row), dict(vars(net))
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.add_(SIGMA * step[name].to(parameter.dtype))
            given, named = torch.utils._pytree.tree_map(own, (args, kwargs))
            outputs.append(tensors_of(net(*given, **named)))
        net.load_state_dict(state)
        vars(net).clear()
        vars(net).update(kept)
        vars(net).get("table", {}).clear()
    torch.backends.mha.set_fastpath_enabled(True)
    return [torch.stack(parts) if not parts[0].dim() else torch.cat(parts) for parts in zip(*outputs, strict=True)]


@each_pair(name=list(CASES), sampler=["low_rank", "iid"], shared=[False, True])
def test_a_pass_is_the_loop_over_members_or_steps_aside(name, sampler, shared, caplog):
    make, args, kwargs = CASES[name]
    net = make()
    with neuro.perturbed(net, sampler, MEMBERS, sigma=SIGMA, shared=shared) as noise:
        net.double()
        args, kwargs = torch.utils._pytree.tree_map(
            lambda x: x.double() if isinstance(x, Tensor) and x.is_floating_point() else x, (args, kwargs)
        )
        generator, state = torch.get_rng_state(), {key: value.clone() for key, value in net.state_dict().items()}
        with caplog.at_level(logging.WARNING):
            made = tensors_of(net(*args, **kwargs))
        assert torch.equal(torch.get_rng_state(), generator)
        again = tensors_of(net(*args, **kwargs))
    assert all(torch.equal(value, state[key]) for key, value in net.state_dict().items())
    assert not {"twice", "table", "forward"} & set(vars(net))
    wanted = loop(net, noise, args, kwargs, shared)
    assert len(made) == len(wanted)
    for got, other, expected in zip(made, again, wanted, strict=True):
        largest = max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-6 * largest)
        torch.testing.assert_close(other, expected, rtol=0, atol=1e-6 * largest)
    said = {record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING}
    assert len(said) <= 1
    assert all(text.startswith("perturbed: members answer one by one, slower: ") for text in said)


def mirrored(own: Any, x: Tensor) -> Tensor:
    return own.b(torch.tanh(own.a(x + x[list(range(len(x)))[::-1]])))


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_equal_observations_prove_nothing_about_those_that_differ(sampler):
    """Environments that all begin alike, and a module that adds those in reverse order before any parameter."""
    net = Use(mirrored, a=nn.Linear(4, 6), b=nn.Linear(6, 2))
    with neuro.perturbed(net, sampler, MEMBERS, sigma=SIGMA) as noise:
        net.double()
        for x in (torch.zeros(MEMBERS, 4), torch.ones(MEMBERS, 4), torch.randn(MEMBERS, 4)):
            made = net(x.double())
    (wanted,) = loop(net, noise, (x.double(),), {}, shared=False)
    torch.testing.assert_close(made, wanted, rtol=0, atol=1e-6)
