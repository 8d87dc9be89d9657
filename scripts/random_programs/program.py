"""Random modules: 3 to 9 operations on vectors, images, sequences or words, as source of a class ``Net``.

Layers, bare parameters, weights that are used twice or computed, sorting, indexing, buffers that move, branches on numbers,
experts, and operations across the examples of a batch.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

LARGEST = 2000  # numbers of an example's value from which on it is reduced
INPUTS = {
    "vector": lambda r: (r.choice([5, 8, 12]),),
    "image": lambda r: (r.choice([1, 3, 4]), 8, 8),
    "sequence": lambda r: (r.choice([5, 6, 8]), r.choice([4, 8])),
    "words": lambda r: (r.choice([5, 6, 8]),),
}
Shape = tuple[int, ...]


class Program:
    """Source of a module: lines of its constructor and of its forward pass, and the values so far with an example's shape."""

    counts: Sequence[tuple[int, float]] = ()  # examples of the batches and their sizes, if others than usual

    def __init__(self, seed: int, rules: "Sequence[Rule] | None" = None) -> None:
        self.r, self.rules = random.Random(seed), RULES if rules is None else rules
        self.kind = self.r.choice(["vector", "image", "sequence", "words", "vector", "image"])
        self.shape: Shape = INPUTS[self.kind](self.r)
        self.made: list[str] = []
        self.called: list[str] = []
        self.values: list[tuple[str, Shape]] = []
        self.linear: list[tuple[str, int, int]] = []  # name, inputs and outputs of linear layers, which may serve again
        if self.kind == "words":
            size = self.r.choice([4, 8])
            self.value(f"{self.part(f'nn.Embedding(16, {size})')}(x)", (*self.shape, size))
        else:
            self.values.append(("x", self.shape))
        left = self.r.randint(3, 9) if self.rules else 0
        for _ in range(200):
            left -= left > 0 and self.step()
        last, shape = self.values[-1]
        head = self.part(f"nn.Linear({math.prod(shape)}, 3)")
        self.called.append(f"return {head}({last}.flatten(1))")

    def step(self) -> bool:
        """Add a random operation on a late value; False where it does not fit."""
        value, shape = self.r.choice(self.values[-3:] if self.r.random() < 0.85 else self.values)
        if math.prod(shape) > LARGEST:
            self.value(f"{value}.flatten(1)[:, :200]", (200,))
            return False
        count = len(self.values)
        self.r.choice(self.rules)(self, value, shape)
        return len(self.values) > count

    def placed(self, x: Tensor) -> Tensor:
        """Return inputs ``x`` in the memory in which the module gets them."""
        return x

    def part(self, made: str) -> str:
        name = f"self.m{len(self.made)}"
        self.made.append(f"{name} = {made}")
        return name

    def parameter(self, *sizes: int) -> str:
        return self.part(f"nn.Parameter(0.3 * torch.randn({list(sizes)}))")

    def buffer(self, made: str) -> str:
        name = f"b{len(self.made)}"
        self.made.append(f"self.register_buffer('{name}', {made})")
        return f"self.{name}"

    def value(self, expression: str, shape: Shape) -> None:
        name = f"v{len(self.called)}"
        self.called.append(f"{name} = {expression}")
        self.values.append((name, tuple(shape)))

    def source(self) -> str:
        made, called = ("".join(f"        {line}\n" for line in lines) for lines in (self.made, self.called))
        begin = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        return f"{begin}{made}    def forward(self, x):\n{called}"


Rule = Callable[[Program, str, Shape], Any]


def linear(p: Program, v: str, s: Shape) -> None:
    outputs = p.r.choice([3, 4, 6, 8])
    name = p.part(f"nn.Linear({s[-1]}, {outputs}, bias={p.r.random() < 0.5})")
    p.linear.append((name, s[-1], outputs))
    p.value(f"{name}({v})", (*s[:-1], outputs))


def again(p: Program, v: str, s: Shape) -> None:
    for name, inputs, outputs in p.linear:
        if s[-1] == inputs:
            return p.value(f"{name}({v})", (*s[:-1], outputs))
        if s[-1] == outputs:
            return p.value(f"F.linear({v}, {name}.weight.t())", (*s[:-1], inputs))
    return None


def convolution(p: Program, v: str, s: Shape) -> None:
    kernel, stride, groups = p.r.choice([1, 2, 3]), p.r.choice([1, 1, 2]), p.r.choice([1, s[0]])
    padding = p.r.choice([0, kernel // 2])
    if len(s) == 3 and min(s[1:]) + 2 * padding >= kernel and min(s[1:]) > padding:
        mode, channels = (
            p.r.choice(["zeros", "circular", "reflect", "replicate"] if padding else ["zeros"]),
            groups * p.r.choice([2, 4]),
        )
        sides = [(side + 2 * padding - kernel) // stride + 1 for side in s[1:]]
        layer = f"nn.Conv2d({s[0]}, {channels}, {kernel}, {stride}, {padding}, groups={groups}, padding_mode='{mode}')"
        p.value(f"{p.part(layer)}({v})", (channels, *sides))
    elif len(s) == 2 and s[1] >= kernel:
        p.value(f"{p.part(f'nn.Conv1d({s[0]}, 3, {kernel})')}({v})", (3, s[1] - kernel + 1))


def norm(p: Program, v: str, s: Shape) -> None:
    kinds = [
        f"nn.LayerNorm({list(s[-p.r.randint(1, len(s)) :])})",
        f"nn.BatchNorm{2 if len(s) == 3 else 1}d({s[0]})",
        "nn.PReLU()",
    ]
    kinds += [f"nn.GroupNorm(2, {s[0]})"] * (len(s) > 1 and s[0] % 2 == 0) + ["nn.Dropout(0.3)"]
    p.value(f"{p.part(p.r.choice(kinds))}({v})", s)


def sequence(p: Program, v: str, s: Shape) -> None:
    if len(s) != 2:
        return
    heads = s[1] % 2 == 0
    kinds = [(f"nn.{p.r.choice(['LSTM', 'GRU', 'RNN'])}({s[1]}, 4, batch_first=True)", "({0})[0]", 4)]
    kinds += [(f"nn.MultiheadAttention({s[1]}, 2, batch_first=True)", "({0}, {0}, {0})[0]", s[1])] * heads
    kinds += [(f"nn.TransformerEncoderLayer({s[1]}, 2, 12, batch_first=True)", "({0})", s[1])] * heads
    made, call, size = p.r.choice(kinds)
    p.value(f"{p.part(made)}{call.format(v)}", (s[0], size))


def weights(p: Program, v: str, s: Shape) -> None:
    d, w = s[-1], p.parameter(3, s[-1])
    p.value(
        p.r.choice(
            [
                f"{v} @ {w}.T",
                f"torch.einsum('...i,oi->...o', {v}, {w})",
                f"F.linear({v}, F.softmax({w}, -1))",
                f"F.linear({v}, {w} / {w}.norm(dim=1, keepdim=True))",
                f"{v} @ ({w} * {p.buffer(f'(torch.rand(3, {d}) > 0.4).float()')}).T",
            ]
        ),
        (*s[:-1], 3),
    )


def bare(p: Program, v: str, s: Shape) -> None:
    p.value(
        p.r.choice([f"{v} + {p.parameter(*s)}", f"{v} * {p.parameter(s[-1])}", f"torch.addcmul({v}, {v}, {p.parameter(1)})"]), s
    )


def written(p: Program, v: str, s: Shape) -> None:
    place = len(p.called)
    name, half = f"w{place}", max(1, s[-1] // 2)
    p.called.append(f"{name} = {p.r.choice([f'{v}.clone()', f'torch.zeros_like({v})'])}")
    p.called.append(
        p.r.choice(
            [
                f"{name}[..., 0] = 0.5",
                f"{name} += {p.parameter(s[-1])}",
                f"{name}[..., :{half}] = {v}[..., :{half}] * {p.parameter(1)}",
            ]
        )
    )
    p.value(name, s)


def chosen(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    made, size = p.r.choice(
        [
            (f"F.one_hot({v}.argmax(-1), {d}) * {v}", d),
            (f"{p.parameter(d, 4)}[{v}.argmax(-1)]", 4),
            (f"{p.part(f'nn.Embedding({d}, 4)')}({v}.argmax(-1))", 4),
            (f"torch.gather({v}, -1, {v}.argsort(-1))", d),
            (f"torch.zeros_like({v}).scatter_add(-1, {v}.argsort(-1), {v})", d),
            (f"{v}.topk(2, -1).values", 2),
        ]
    )
    p.value(made, (*s[:-1], size))


def experts(p: Program, v: str, s: Shape) -> None:
    layers, gate, place = (
        p.part(f"nn.ModuleList([nn.Linear({s[-1]}, 3) for _ in range(2)])"),
        p.parameter(s[-1], 2),
        len(p.called),
    )
    if len(s) > 1 or p.r.random() < 0.5:
        p.value(
            f"torch.stack([e({v}) for e in {layers}], -1).mul(F.softmax({v} @ {gate}, -1)[..., None, :]).sum(-1)", (*s[:-1], 3)
        )
        return
    p.called += [f"c{place}, w{place} = ({v} @ {gate}).argmax(-1), {v}.new_zeros(len({v}), 3)"]
    p.called += [f"for i, e in enumerate({layers}): w{place}[c{place} == i] = e({v}[c{place} == i])"]
    p.value(f"w{place}", (3,))


def state(p: Program, v: str, s: Shape) -> None:
    kept = p.buffer(f"torch.zeros({s[-1]})")
    moved = p.r.choice([f"0.9 * {kept} + 0.1 * {v}.reshape(-1, {s[-1]}).mean(0)", f"{kept} + 1", f"{kept} * 1"])
    p.called.append(f"{kept} = {moved}")
    p.value(f"{v} - 0.1 * torch.sin({kept})", s)


def pointwise(p: Program, v: str, s: Shape) -> None:
    name = p.r.choice(["relu", "gelu", "silu", "elu", "softplus", "hardtanh", "leaky_relu", "hardswish", "tanh"])
    axis, other = p.r.randint(1, len(s)), p.r.choice([value for value, shape in p.values if shape == s])
    p.value(
        p.r.choice(
            [
                f"F.{name}({v})",
                f"F.softmax({v}, {axis})",
                f"{v}.cumsum({axis})",
                f"{v}.sort({axis}).values",
                f"{v}.flip({axis})",
                f"torch.where({v} > 0, {v}, 0.5 * {v})",
                f"{v}.masked_fill({v} > 1, 0.25)",
                f"torch.roll({v}, 1, {axis})",
                f"{v} * torch.sigmoid({other})",
                f"torch.maximum({v}, {other})",
                f"{v} + {other}",
                f"torch.vmap(lambda a: a * a.abs().max())({v})",
            ]
        ),
        s,
    )


def shapes(p: Program, v: str, s: Shape) -> None:
    d, fitting = (
        s[-1],
        [
            (f"{v}.flatten(1)", (math.prod(s),)),
            (f"F.pad({v}, (1, 0))", (*s[:-1], s[-1] + 1)),
            (f"torch.cat([{v}, -{v}], 1)", (2 * s[0], *s[1:])),
        ],
    )
    fitting += [(f"{v}.repeat_interleave(2, -1)", (*s[:-1], 2 * d))]
    if len(s) > 1 and s[0] > 1:
        fitting += [(f"{v}.{p.r.choice(['mean', 'amax', 'std', 'logsumexp'])}(1)", s[1:])]
    if len(s) == 2:
        fitting += [
            (f"{v}.transpose(1, 2)", s[::-1]),
            (f"{v} @ {v}.transpose(1, 2) / {d}", (s[0], s[0])),
            (f"F.scaled_dot_product_attention({v}, {v}, {v})", s),
        ]
    if len(s) == 3 and min(s[1:]) > 1:
        fitting += [
            (f"F.{p.r.choice(['max_pool2d', 'avg_pool2d'])}({v}, 2)", (s[0], s[1] // 2, s[2] // 2)),
            (f"F.adaptive_avg_pool2d({v}, 2)", (s[0], 2, 2)),
        ]
        fitting += [
            (f"F.interpolate({v}, scale_factor=2)", (s[0], 2 * s[1], 2 * s[2])),
            (f"F.unfold({v}, 2)", (4 * s[0], (s[1] - 1) * (s[2] - 1))),
        ]
    p.value(*p.r.choice(fitting))


def across(p: Program, v: str, s: Shape) -> None:
    """Operations across the examples of a batch, and branches on numbers."""
    p.value(
        p.r.choice(
            [
                f"{v} - {v}.mean(0)",
                f"F.softmax({v}, 0)",
                f"{v}.flip(0)",
                f"{v}.cumsum(0) / 4",
                f"{v} / ({v}.abs().mean() + 0.1)",
                f"{v}.roll(1, 0)",
                f"({v} if {v}.mean() > 0.05 else -{v})",
                f"({v} if len({v}) < 10 else {v}.flip(0))",
                f"torch.tensor({v}.numpy().copy())" if v == "x" else f"{v}.sort(0).values",
            ]
        ),
        s,
    )


RULES: tuple[Rule, ...] = (
    linear,
    linear,
    again,
    convolution,
    convolution,
    norm,
    norm,
    sequence,
    weights,
    bare,
    written,
    chosen,
    experts,
    state,
    pointwise,
    pointwise,
    pointwise,
    shapes,
    shapes,
    across,
)
