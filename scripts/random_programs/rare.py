"""Rare operations of random modules: what a few packages do, and what lies outside of a module's own forward pass.

Higher-order functions, functions with a map of their own, computed weights that are cached, caches in buffers, hooks that change
or keep values, tables outside of the module, matrices' decompositions, ragged and nested values, draws in evaluation mode.
"""

from random_programs.program import RULES, Program, Rule, Shape
from random_programs.wide import MORE, Option, Wide


class Rare(Wide):
    """Program of which every second operation is rare."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, RARE)


def computed(p: Program, v: str, s: Shape) -> None:
    """Weights that are computed from parameters, once a pass or once a mode."""
    d, norms = s[-1], "nn.utils.parametrizations"
    kinds = [f"{norms}.weight_norm(nn.Linear({d}, {d}))", f"{norms}.orthogonal(nn.Linear({d}, {d}), use_trivialization=False)"]
    kinds += [f"{norms}.spectral_norm(nn.Linear({d}, {d}), n_power_iterations=2)", f"parts.squared(nn.Linear({d}, {d}))"]
    layer = p.part(p.r.choice(kinds))
    call = [f"rare.cached({v}, {layer})", f"{layer}({v})", f"{p.part(f'rare.ByVersion({d})')}({v})"]
    if p.r.random() < 0.03:  # refused
        call = [f"{p.part(f'rare.Packed({d})')}({v})"]
    p.value(p.r.choice(call), s)


def hooks(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    kinds = ["Tapped", "Tabled", "Outside", "Lambda", "Auxiliary", "Prehooked", "Subclassed", "Loading", "ClassState", "Stepped"]
    p.value(f"{p.part(f'rare.{p.r.choice(kinds)}({d})')}({v})", s)


def higher(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    layer, weight = p.part(f"nn.Linear({d}, {d})"), p.parameter(d)
    options = [
        f"torch.cond({v}.mean() > 0, lambda a: a.sin(), lambda a: a * 0.5, ({v},))",
        f"rare.looped({v})", f"rare.Doubled.apply({v}, {weight})", f"rare.Ruled.apply({v})",
        f"torch.func.jvp(lambda a: torch.tanh({layer}(a)), ({v},), (torch.ones_like({v}),))[1]",
        f"torch.func.vmap(lambda a: torch.tanh({layer}(a)), chunk_size=3)({v})",
        f"torch.func.vmap(torch.func.grad(lambda a: torch.tanh({layer}(a)).sum()))({v})",
        f"torch.func.jacrev(lambda w: ({v} * w).mean())({weight}) * {v}",
        f"torch.func.linearize(torch.tanh, {v})[1]({v})",
        f"torch.utils.checkpoint.checkpoint({layer}, {v}, use_reentrant=True)",
        f"torch.compile({layer}, backend='eager')({v})", f"rare.scripted({v}, {weight})",
    ]  # fmt: skip
    p.value(p.r.choice(options), s)


def attended(p: Program, v: str, s: Shape) -> None:
    if len(s) != 2 or s[1] % 4:
        return
    t, d = s
    heads = f"{v}.unflatten(-1, (4, {d // 4})).transpose(1, 2)"
    few = f"{heads}[:, :2]"
    mask = p.r.choice([f"({v}[:, None, :, 0].unsqueeze(-2) > -2)", p.parameter(t, t), "None", p.parameter(1, 1, t)])
    causal = mask == "None" and p.r.random() < 0.5
    gqa, more = p.r.choice([(few, ", enable_gqa=True"), (heads, "")])
    scale = p.r.choice(["", ", scale=0.3", f", dropout_p={p.r.choice([0.0, 0.5])}"])
    made = f"F.scaled_dot_product_attention({heads}, {gqa}, {gqa}, attn_mask={mask}, is_causal={causal}{scale}{more})"
    layer = p.part(f"nn.MultiheadAttention({d}, 4, batch_first=True, bias={p.r.random() < 0.5})")
    weights = p.r.choice(["need_weights=False", "average_attn_weights=False", "need_weights=True"])
    padded = f"({v}[..., 0] > 1.5) & (torch.arange({t}) > 0)"
    options: list[Option] = [
        lambda: (f"{made}.transpose(1, 2).flatten(2)", s),
        lambda: (f"{layer}({v}, {v}, {v}, key_padding_mask={padded}, {weights})[0]", s),
        lambda: (f"{layer}({v}, {v}, {v}, average_attn_weights=True)[1]", (t, t)),
        lambda: (f"{p.part(f'rare.KeyCache({t}, {d})')}({v})", s),
        lambda: (f"rare.ragged({v}, {p.part(f'nn.GRU({d}, {d}, batch_first=True)')})", s),
    ]
    p.value(*p.r.choice(options)())


def matrices(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    w = p.parameter(d, d)
    sym = f"({w} @ {w}.T + torch.eye({d}, dtype={w}.dtype))"
    options: list[Option] = [
        lambda: (f"torch.linalg.solve({sym}, {v}.unsqueeze(-1)).squeeze(-1)", s),
        lambda: (f"{v} @ torch.linalg.inv({sym})", s),
        lambda: (f"{v} @ torch.linalg.cholesky({sym})", s),
        lambda: (f"{v} * torch.linalg.eigvalsh({sym})", s),
        lambda: (f"{v} @ torch.matrix_exp(({w} - {w}.T) * 0.3)", s),
        lambda: (f"{v} * torch.linalg.svdvals({w})", s),
        lambda: (f"{v} * torch.linalg.slogdet({sym}).logabsdet", s),
        lambda: (f"torch.linalg.lstsq({sym}, {v}.reshape(-1, {d}).T).solution.T.reshape({v}.shape)", s),
        lambda: (f"F.pdist({w}).mean() * {v}", s),
        lambda: (f"torch.cdist({v}.reshape(len({v}), -1, {d}), {w}.expand(len({v}), {d}, {d}), p=1).reshape({v}.shape)", s),
        lambda: (f"F.linear({v}, torch.kron({p.parameter(1, 1)}, {w}), {p.parameter(d)})", s),
        lambda: (f"torch.fft.ifft(torch.fft.fft({v}) * torch.polar({p.parameter(d)}, {p.parameter(d)})).real", s),
        lambda: (f"F.linear({v}, {w}.triu() + {w}.triu(1).T)", s),
        lambda: (f"F.linear({v}, torch.gather({w}, 1, {w}.argsort(1)))", s),
        lambda: (f"F.linear({v}, ({w} / 0.1).round() * 0.1)", s),
        lambda: (f"F.linear({v}, torch.where({w}.abs() > 0.2, {w}, 0))", s),
        lambda: (f"F.linear({v}, {w} * ({w}.abs() >= {w}.abs().flatten().kthvalue({d}).values))", s),
    ]
    p.value(*p.r.choice(options)())


def scattered(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    mode = p.r.choice(["sum", "mean", "amax", "amin", "prod"])
    flat, index = f"{v}.reshape(-1, {d})", f"parts.places({v}, {d})"
    lengths = f"torch.tensor([1, {d - 1}]).repeat(len({flat}), 1)"
    options: list[Option] = [
        lambda: (f"{v}.scatter_reduce(-1, {index}, {v} * 0.5, '{mode}', include_self={p.r.random() < 0.5})", s),
        lambda: (f"torch.zeros_like({v}).scatter({d and -1}, {index}, 0.5, reduce='add')", s),
        lambda: (f"torch.segment_reduce({flat}, 'max', lengths={lengths}, axis=1).reshape(*{v}.shape[:-1], 2)", (*s[:-1], 2)),
        lambda: (f"torch.zeros_like({flat}).index_put(({index}.reshape(-1, {d})[:, 0] % len({flat}),), {flat}, "
                 f"accumulate=True).reshape({v}.shape)", s),
        lambda: (f"rare.sorted_experts({v}, {p.parameter(3, d)})", s),
        lambda: (f"rare.nested({v})", s),
        lambda: (f"rare.bags({v}, {p.parameter(6, d)})", s),
        lambda: (f"{v}.index_reduce(-1, torch.arange({d}) // 2, {v}, '{p.r.choice(['mean', 'amax', 'prod'])}')", s),
        lambda: (f"{v} + torch.searchsorted(torch.linspace(-1, 1, 5, dtype={v}.dtype), {v}.contiguous()).to({v}.dtype)", s),
        lambda: (f"torch.nan_to_num({v}.masked_fill({v} > 1.2, torch.inf), posinf=0.7)", s),
    ]  # fmt: skip
    p.value(*p.r.choice(options)())


def drawn(p: Program, v: str, s: Shape) -> None:
    """Draws in evaluation mode: by a generator that begins again, or of no effect on numbers."""
    p.value(
        p.r.choice(
            [
                f"{v} + 0.1 * torch.randn({v}.shape[1:], generator=torch.Generator().manual_seed(3)).to({v}.dtype)",
                f"F.dropout({v}, 0.3, training=self.training)", f"F.alpha_dropout({v}, 0.1, False)",
                f"{v} + 0 * torch.rand_like({v})", f"F.rrelu({v}, training=False)",
                f"{v}.bfloat16().to({v}.dtype) * 0 + {v}", f"rare.halved({v})",
            ]
        ),
        s,
    )  # fmt: skip


RARE: tuple[Rule, ...] = (
    *RULES, *MORE[len(RULES):], *(computed, hooks, higher, attended, matrices, scattered, drawn, hooks, attended, scattered) * 4
)  # fmt: skip
