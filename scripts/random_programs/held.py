"""Random modules that hold weights in functions, objects and tables, or compute them for each example; inputs that are views.

Also state that a pass moves, as many steps as the numbers need, and branches that are NaN where they are not taken.
"""

import torch
from random_programs.program import Program, Shape
from random_programs.rare import RARE
from random_programs.wide import Option, Wide
from torch import Tensor

HOLDERS = (
    "Partial", "Default", "Closed", "Bound", "Object", "ByName", "Property", "CachedProperty", "Remembered", "OutOfTree",
    "InThreads", "Buffered", "Codebook", "Warming", "Power", "Adaptive", "Called", "Prototypes", "InInference", "Complex",
    "OwnDouble", "Stacked", "Equilibrium", "GhostNorm", "Energy", "Twins", "Sliced", "Traced", "Changing", "Between",
)  # fmt: skip


class Held(Wide):
    """Program with mostly operations of this kind; its inputs may be views of other memory."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, HELD)
        self.view = self.r.choice(["", "", "", "transposed", "strided", "offset", "columns", "expanded", "last"])

    def placed(self, x: Tensor) -> Tensor:
        if self.view == "transposed" and x.dim() > 1:
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if self.view == "strided":
            return torch.stack([x, x + 1], 1)[:, 0]
        if self.view == "offset":
            return torch.cat([x[:1], x])[1:]
        if self.view == "columns" and x.dim() > 1:
            return torch.cat([x, x], -1)[..., : x.shape[-1]]
        if self.view == "expanded":
            return x[:, :1].expand_as(x)
        if self.view == "last" and x.dim() == 4:
            return x.contiguous(memory_format=torch.channels_last)
        return x


def holders(p: Program, v: str, s: Shape) -> None:
    p.value(f"{p.part(f'held.{p.r.choice(HOLDERS)}({s[-1]})')}({v})", s)


def of_examples(p: Program, v: str, s: Shape) -> None:
    options: list[Option] = [lambda: (f"{p.part(f'held.Hyper({s[-1]}, {p.r.randrange(4)})')}({v})", s)]
    if len(s) == 3:
        options = [lambda: (f"{p.part(f'held.Modulated({s[0]})')}({v})", s)] * 2
    if len(s) == 2:
        options += [lambda: (f"{p.part(f'held.Attentive({s[-1]})')}({v})", s)]
    p.value(*p.r.choice(options)())


def values(p: Program, v: str, s: Shape) -> None:
    d, w, norm = s[-1], p.parameter(s[-1]), p.r.choice(["weight_norm", "spectral_norm"])
    options: list[Option] = [
        lambda: (f"held.guarded({v} + 0 * {w})", s),
        lambda: (f"held.chosen_rows({v}, {w})", s),
        lambda: (f"held.rows_of_most({v}, {w})", s),
        lambda: (f"held.straight_through({v} * {w})", s),
        lambda: (f"held.hard({v} * {w})", s),
        lambda: (f"torch.cat([{w}.expand(len({v}), *{list(s[:-1])}, {d}), {v}], 1)[:, {s[0]}:] * {w}"
                 if len(s) > 1 else f"{v} * {w}.repeat(len({v}), 1)", s),
        lambda: (f"F.conv1d({v}.reshape(1, -1, {d}), {w}.view(1, 1, -1)[..., :1].repeat({v}.numel() // {d}, 1, 1), "
                 f"groups={v}.numel() // {d}).view_as({v})", s),
        lambda: (f"torch.addcdiv({v}, {v}, {w}.abs() + 1, value=0.5)", s),
        lambda: (f"torch.lerp({v}, {w}.expand_as({v}), 0.25)", s),
        lambda: (f"{v} * {w}[{v}.detach().reshape(-1, {d}).abs().sum(0).argmax()]", s),
        lambda: (f"{v} * {w}[: int({v}.detach().abs().amax().clamp(1, {d}))].sum()", s),
        lambda: (f"{p.part(f'held.OldNorm({d}, {norm!r})')}({v})", s),
        lambda: (f"torch.utils.checkpoint.checkpoint({p.part(f'held.Twins({d})')}, {v}, use_reentrant=False)", s),
        lambda: (f"torch.func.functional_call({p.part(f'nn.Linear({d}, {d})')}, {{'bias': {w}}}, ({v},))", s),
        lambda: (f"{p.part(f'nn.utils.parametrizations.spectral_norm(nn.Linear({d}, {d}))')}({v})", s),
    ]  # fmt: skip
    p.value(*p.r.choice(options)())


HELD = (*RARE, *(holders, holders, of_examples, values) * (len(RARE) // 3))
