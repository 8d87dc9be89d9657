"""More operations of random modules: what people write beyond layers in a row.

Layers with rare options, packed sequences, masks, spectra, products with several weights, writes at indices, state of Python,
branches on numbers, functions inside of functions, and outputs in trees.
"""

import math
from collections.abc import Callable, Sequence

from random_programs.program import RULES, Program, Rule, Shape, linear

Option = Callable[[], tuple[str, Shape]]  # made when it is chosen, with its layers


class Wide(Program):
    """Program of these operations, some of the others', and outputs in a random form."""

    def __init__(self, seed: int, rules: Sequence[Rule] | None = None) -> None:
        super().__init__(seed, rules or MORE)
        result = self.called.pop().removeprefix("return ")
        hidden = self.values[-1][0]
        forms = [result] * 4 + [f"({result}, {hidden})", f"{{'hidden': {hidden}, 'out': {result}}}"]
        forms += [f"parts.Made({result}, {hidden})", f"parts.Pair({result}, {hidden})"]
        self.called.append(f"return {self.r.choice(forms)}")


def transposed(p: Program, v: str, s: Shape) -> None:
    groups = p.r.choice([1, s[0]])
    if len(s) == 3 and max(s[1:]) <= 8:
        outputs, stride, dilation, more = groups * p.r.choice([1, 2]), p.r.choice([1, 2]), p.r.choice([1, 2]), 0
        more = p.r.choice([0, 1]) if stride > 1 or dilation > 1 else 0
        sides = [(side - 1) * stride - 2 + dilation * 2 + more + 1 for side in s[1:]]
        layer = f"nn.ConvTranspose2d({s[0]}, {outputs}, 3, {stride}, 1, {more}, {groups}, dilation={dilation})"
        if min(sides) > 0:
            p.value(f"{p.part(layer)}({v})", (outputs, *sides))
    elif len(s) == 2:
        layer = f"nn.ConvTranspose1d({s[0]}, {2 * groups}, 3, 2, 1, 1, {groups})"
        p.value(f"{p.part(layer)}({v})", (2 * groups, 2 * s[1]))


def dilated(p: Program, v: str, s: Shape) -> None:
    groups = p.r.choice([1, s[0]])
    if len(s) == 3 and min(s[1:]) > 4:
        kernel = p.r.choice(["3", "(3, 1)", "(1, 3)", "(2, 3)"])
        layer = f"nn.Conv2d({s[0]}, {2 * groups}, {kernel}, padding='same', dilation={p.r.choice([1, 2])}, groups={groups})"
        p.value(f"{p.part(layer)}({v})", (2 * groups, *s[1:]))
    elif len(s) == 2 and s[1] > 4:
        layer = f"nn.Conv1d({s[0]}, {2 * groups}, 3, padding=2, dilation=2, groups={groups}, padding_mode='circular')"
        p.value(f"{p.part(layer)}({v})", (2 * groups, s[1]))
    elif len(s) == 3:
        p.value(
            f"{p.part('nn.Conv3d(1, 2, (1, 2, 2), padding=(0, 1, 1))')}({v}[:, None]).flatten(1, 2)[..., 1:, 1:]",
            (2 * s[0], *s[1:]),
        )


def images(p: Program, v: str, s: Shape) -> None:
    if len(s) != 3 or min(s[1:]) < 2:
        return
    c, h, w = s
    fitting: list[Option] = [
        lambda: (f"F.adaptive_max_pool2d({v}, (2, 1))", (c, 2, 1)),
        lambda: (f"F.lp_pool2d({v}.abs() + 0.1, 2, 2)", (c, h // 2, w // 2)),
        lambda: (
            f"F.interpolate({v}, size=(3, 5), mode='{p.r.choice(['bilinear', 'bicubic'])}', align_corners={p.r.random() < 0.5})",
            (c, 3, 5),
        ),
        lambda: (f"F.interpolate({v}, size=(5, 3), mode='{p.r.choice(['nearest-exact', 'area', 'nearest'])}')", (c, 5, 3)),
        lambda: (f"F.fold(F.unfold({v}, 2, padding=1), {[h, w]}, 2, padding=1)", s),
        lambda: (f"{p.part(f'nn.LocalResponseNorm({p.r.choice([2, 3])})')}({v})", s),
        lambda: (f"F.max_unpool2d(*F.max_pool2d({v}, 2, return_indices=True), 2, output_size={[h, w]})", s),
        lambda: (f"F.grid_sample({v}, F.affine_grid({p.parameter(2, 3)}.expand(len({v}), 2, 3), [len({v}), {c}, {h}, {w}]))", s),
        lambda: (f"torch.fft.fft2({v}).abs() / {h}", s),
        lambda: (f"{v}.rot90(1, (2, 3))", (c, w, h)),
        lambda: (f"{v}.diagonal(dim1=2, dim2=3).contiguous()", (c, min(h, w))),
        lambda: (f"{v}.to(memory_format=torch.channels_last)", s),
        lambda: (f"{p.part(f'nn.PReLU({c})')}({v})", s),
        lambda: (f"{p.part(f'nn.ChannelShuffle({c})')}({v})", s),
    ]
    if not h % 2 and not w % 2:
        fitting += [lambda: (f"F.pixel_unshuffle({v}, 2)", (4 * c, h // 2, w // 2))]
    if not c % 4:
        fitting += [lambda: (f"F.pixel_shuffle({v}, 2)", (c // 4, 2 * h, 2 * w))] * 3
    p.value(*p.r.choice(fitting)())


def norms(p: Program, v: str, s: Shape) -> None:
    if len(s) > 3:
        return
    c, dimension = s[0], {1: 1, 2: 1, 3: 2}[len(s)]
    kinds = [f"nn.BatchNorm{dimension}d({c}, affine=False)", f"nn.BatchNorm{dimension}d({c}, track_running_stats=False)"]
    kinds += [
        f"nn.BatchNorm{dimension}d({c}, momentum=None)",
        f"nn.RMSNorm({s[-1]})",
        f"nn.LayerNorm({s[-1]}, elementwise_affine=False)",
    ]
    kinds += [f"nn.BatchNorm{dimension}d({c}).eval().requires_grad_(False)"]
    if len(s) > 1 and math.prod(s[1:]) > 1:
        affine, tracks = p.r.random() < 0.6, p.r.random() < 0.5
        kinds += [f"nn.InstanceNorm{dimension}d({c}, affine={affine}, track_running_stats={tracks})"] * 4
        kinds += [f"nn.GroupNorm({c}, {c}, affine={affine})"]
    p.value(f"{p.part(p.r.choice(kinds))}({v})", s)


def attention(p: Program, v: str, s: Shape) -> None:
    if len(s) != 2 or s[1] % 2:
        return
    t, d = s
    causal = p.buffer(f"torch.ones({t}, {t}).triu(1).bool()")
    floats = p.buffer(f"torch.zeros({t}, {t}).masked_fill(torch.ones({t}, {t}).triu(1).bool(), -1e9)")
    options = p.r.choice(["", ", add_bias_kv=True", ", add_zero_attn=True", ", bias=False", f", kdim={d}, vdim={d}"])
    layer = p.part(f"nn.MultiheadAttention({d}, 2, batch_first=True{options})")
    padding = f"({v}[..., 0] > 1.0) & (torch.arange({t}) > 0)"
    call = p.r.choice(
        [
            lambda: f"{layer}({v}, {v}, {v}, attn_mask={causal}, need_weights=False)[0]",
            lambda: f"{layer}({v}, {v}, {v}, attn_mask={floats}.to({v}.dtype))[0]",
            lambda: f"{layer}({v}, {v}, {v}, key_padding_mask={padding})[0]",
            lambda: f"{layer}({v}, {v}.flip(1), {v}, average_attn_weights=False)[0]",
            lambda: (
                f"{p.part(f'nn.TransformerEncoderLayer({d}, 2, 12, batch_first=True, norm_first=True)')}({v}, src_mask={causal})"
            ),
            lambda: f"{p.part(f'nn.TransformerDecoderLayer({d}, 2, 12, batch_first=True)')}({v}, {v}.flip(1), tgt_mask={causal})",
            lambda: f"F.scaled_dot_product_attention({v}, {v}, {v}, is_causal=True)",
            lambda: f"F.scaled_dot_product_attention({v}, {v}, {v}, attn_mask={p.parameter(t, t)})",
        ]
    )()
    p.value(call, s)


def sequences(p: Program, v: str, s: Shape) -> None:
    if len(s) != 2:
        return
    t, d = s
    kind = p.r.choice(["LSTM", "GRU", "RNN"])
    many = f"nn.{kind}({d}, 3, num_layers=2, bidirectional=True, batch_first=True)"
    fitting: list[Option] = [
        lambda: (f"parts.packed({v}, {p.part(f'nn.{kind}({d}, 4, batch_first=True)')}, 2)", (t, 4)),
        lambda: (f"{p.part(many)}({v})[0]", (t, 6)),
        lambda: (f"{p.part(f'nn.LSTM({d}, 4, proj_size=2, batch_first=True)')}({v})[0]", (t, 2)),
        lambda: (f"parts.recurrent({v}, {p.part(f'nn.GRUCell({d}, 4)')}, 4)", (4,)),
        lambda: (f"{p.part(f'nn.GRU({d}, 4)')}({v}.transpose(0, 1))[0].transpose(0, 1)", (t, 4)),
        lambda: (
            f"{p.part(f'nn.GRU({d}, 4, batch_first=True)')}({v}, {p.parameter(1, 1, 4)}.repeat(1, len({v}), 1))[1][0]",
            (4,),
        ),
    ]
    p.value(*p.r.choice(fitting)())


def tables(p: Program, v: str, s: Shape) -> None:
    d, index = s[-1], f"parts.places({v}, 7)"
    more = p.r.choice(["", ", padding_idx=2", ", max_norm=0.5", ", scale_grad_by_freq=True", ", padding_idx=0, max_norm=1.0"])
    bag = f"nn.EmbeddingBag(7, 3, mode='{p.r.choice(['sum', 'mean', 'max'])}')"
    fitting: list[Option] = [
        lambda: (f"{p.part(f'nn.Embedding(7, 3{more})')}({index})", (*s, 3)),
        lambda: (f"F.embedding({index}, {p.parameter(7, 3)}{p.r.choice(['', ', padding_idx=1'])})", (*s, 3)),
        lambda: (f"{p.parameter(7, 3)}.index_select(0, {index}.flatten()).view(*{v}.shape, 3)", (*s, 3)),
        lambda: (f"F.one_hot({index}, 7).to({v}.dtype) @ {p.parameter(7, 2)}", (*s, 2)),
        lambda: (f"{p.parameter(7)}.take({index})", s),
    ]
    if len(s) == 1:
        fitting += [
            lambda: (f"{p.part(bag)}({index})", (3,)),
            lambda: (f"{p.part(bag)}({index}.flatten(), torch.arange(0, {v}.numel(), {d}))", (3,)),
        ] * 2
    p.value(*p.r.choice(fitting)())


def products(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    a, b = p.parameter(d, 3), p.parameter(3, 2)
    fitting: list[Option] = [
        lambda: (f"torch.einsum('...i,ij,jk->...k', {v}, {a}, {b})", (*s[:-1], 2)),
        lambda: (f"torch.einsum('...i,...j,ijk->...k', {v}, {v}, {p.parameter(d, d, 2)})", (*s[:-1], 2)),
        lambda: (f"torch.tensordot({v}, {a}, 1)", (*s[:-1], 3)),
        lambda: (f"{p.part(f'nn.Bilinear({d}, {d}, 3)')}({v}, {v}.flip(-1))", (*s[:-1], 3)),
        lambda: (f"torch.addmm({p.parameter(3)}, {v}.reshape(-1, {d}), {a}).view(*{v}.shape[:-1], 3)", (*s[:-1], 3)),
        lambda: (f"torch.linalg.multi_dot([{v}.reshape(-1, {d}), {a}, {b}]).view(*{v}.shape[:-1], 2)", (*s[:-1], 2)),
        lambda: (f"torch.matmul({v}, {a}.unsqueeze(0).expand(1, {d}, 3)[0])", (*s[:-1], 3)),
        lambda: (f"{v} * torch.linalg.matrix_norm({a})", s),
        lambda: (f"{v} @ torch.linalg.qr({a} @ {a}.T + torch.eye({d})).Q", s),
        lambda: (
            f"torch.cdist({v}.reshape(len({v}), -1, {d}), {a}.T.expand(len({v}), 3, {d})).view(*{v}.shape[:-1], 3)",
            (*s[:-1], 3),
        ),
        lambda: (f"F.cosine_similarity({v}.unsqueeze(-2), {a}.T, dim=-1)", (*s[:-1], 3)),
        lambda: (f"torch.outer({p.parameter(d)}, {p.parameter(1)}).flatten() * {v}", s),
        lambda: (f"F.linear({v}, torch.block_diag({p.parameter(1, 1)}, {p.parameter(2, d - 1)}))", (*s[:-1], 3)),
        lambda: (f"F.linear({v}, {p.parameter(1)}.expand(2, {d}))", (*s[:-1], 2)),
    ]
    if len(s) == 2:
        fitting += [
            lambda: (f"torch.baddbmm({p.parameter(1, 1, 3)}, {v}, {a}.expand(len({v}), {d}, 3))", (s[0], 3)),
            lambda: (f"torch.einsum('bti,bsi,i->bts', {v}, {v}, {p.parameter(d)}) / {d}", (s[0], s[0])),
            lambda: (f"torch.bmm({v}, {a}.expand(len({v}), {d}, 3))", (s[0], 3)),
            lambda: (f"torch.einsum('bti,tio->bto', {v}, {p.parameter(s[0], d, 2)})", (s[0], 2)),
        ]
    p.value(*p.r.choice(fitting)())


def spectra(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    weight = f"torch.view_as_complex({p.parameter(d // 2 + 1, 2)})"
    fitting: list[Option] = [
        lambda: (f"torch.fft.rfft({v}).abs()", (*s[:-1], d // 2 + 1)),
        lambda: (f"torch.fft.irfft(torch.fft.rfft({v}) * {weight}, n={d})", s),
        lambda: (f"torch.fft.fft({v}).real", s),
        lambda: (f"torch.view_as_real(torch.complex({v}, 0.5 * {v}.flip(-1)) * 1j).flatten(-2)", (*s[:-1], 2 * d)),
        lambda: (f"torch.polar({v}.abs(), {v}).real", s),
        lambda: (f"(torch.complex({v}, -{v}) @ torch.complex({p.parameter(d, 3)}, {p.parameter(d, 3)})).imag", (*s[:-1], 3)),
        lambda: (f"torch.fft.fft({v}, dim=0).abs() / 4", s),
    ]
    p.value(*p.r.choice(fitting)())


def indices(p: Program, v: str, s: Shape) -> None:
    d, half = s[-1], (s[-1] + 1) // 2
    kept, row = p.buffer(f"torch.randperm({d})[:{half}]"), p.parameter(half)
    p.value(
        *p.r.choice(
            [
                lambda: (f"{v}.index_add(-1, {kept}, {v}[..., :{half}])", s),
                lambda: (f"{v}.index_copy(-1, {kept}, {row}.expand(*{v}.shape[:-1], {half}))", s),
                lambda: (f"{v}.index_fill(-1, {kept}, 0.3)", s),
                lambda: (f"{v}[..., {kept}] * {row}", (*s[:-1], half)),
                lambda: (
                    f"{v}.clone().index_put_((torch.arange(len({v})),), {p.parameter(1)}.expand_as({v}), accumulate=True)",
                    s,
                ),
                lambda: (f"torch.zeros_like({v}).scatter_reduce(-1, {v}.argsort(-1), {v}, 'amax')", s),
                lambda: (f"torch.zeros_like({v}).scatter(-1, {v}.argsort(-1), {p.parameter(d)}.expand_as({v}))", s),
                lambda: (f"torch.take_along_dim({v}, {v}.argsort(-1, descending=True), -1)", s),
                lambda: (f"{v}.masked_scatter({v} > 0.5, torch.zeros_like({v}))", s),
                lambda: (f"{v}.masked_fill({v} > {p.parameter(1)}, 0.2)", s),
                lambda: (f"torch.where({v} > {p.parameter(d)}, {v}, {p.parameter(1)})", s),
                lambda: (f"torch.bucketize({v}, torch.linspace(-1, 1, 5, dtype={v}.dtype)).to({v}.dtype)", s),
                lambda: (f"torch.unique({v}, return_inverse=True)[1].to({v}.dtype) / 100", s),
                lambda: (f"torch.isin({v}.argmax(-1, keepdim=True), torch.tensor([0, 2])).to({v}.dtype) + {v}", s),
                lambda: (f"torch.histc({v}, 4, -2, 2).sum() * 0.001 + {v}", s),
                lambda: (f"{v}.cummax(-1).values", s),
                lambda: (f"{v}.diff(dim=-1, prepend={v}[..., :1])", s),
                lambda: (f"{v}.msort()", s),
                lambda: (f"{v}.unsqueeze(-1).expand(*{v}.shape, 2)[..., 1]", s),
                lambda: (f"{v}.unfold(-1, 2, 1).sum(-1)", (*s[:-1], d - 1)),
                lambda: (f"torch.stack(list({v}.unbind(-1)), -1)", s),
                lambda: (f"torch.cat([part * {p.parameter(1)} for part in {v}.split(1)])", s),
                lambda: (f"{v}.as_strided({v}.shape, {v}.stride())", s),
            ]
        )()
    )


def python(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    layer = p.part(f"nn.Linear({d}, {d})")
    p.value(
        p.r.choice(
            [
                lambda: f"{p.part(f'parts.Called(nn.Linear({d}, {d}))')}({v})",
                lambda: f"{p.part('parts.History()')}({v})",
                lambda: f"{p.part(f'parts.Cached({d})')}({v})",
                lambda: f"{p.part('parts.Lazily()')}({v})",
                lambda: f"{p.part('parts.Meets()')}({v})",
                lambda: f"parts.globally({v})",
                lambda: f"parts.halting({v}, {layer})",
                lambda: f"parts.by_row({v}, {layer})",
                lambda: f"({v} if ({v} > 0).any() else {v} - 1)",
                lambda: f"({v} * 2 if int({v}.sum()) % 2 else {v})",
                lambda: f"({v} * (0.5 + 0.01 * round({v}.tolist()[0] if {v}.dim() == 1 else float({v}.flatten()[0]))))",
                lambda: f"torch.stack([row if row.mean() > 0 else -row for row in {v}])",
                lambda: f"torch.from_numpy({v}.detach().cpu().double().numpy() * 2.0).to({v}.dtype)",
                lambda: f"{v} * (0.1 + max({p.parameter(1)}.item(), 0.0))",
                lambda: f"({v} if {layer}.weight.sum() > 0 else -{v})",
                lambda: f"{v} + sum(float(p.sum()) for p in {layer}.parameters())",
                lambda: f"{v} * len(set({v}.argmax(-1).flatten().tolist()))",
                lambda: f"{v}.apply_(lambda a: a * 0.5) if False else {v} * {v}.shape[0]",
            ]
        )(),
        s,
    )


def functions(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    layer, weight = p.part(f"nn.Linear({d}, {d})"), p.parameter(d)
    p.value(
        p.r.choice(
            [
                lambda: f"parts.Sign.apply({v})",
                lambda: f"parts.Scaled.apply({v}, {weight})",
                lambda: f"parts.derivative(torch.sin, {v})",
                lambda: f"parts.derivative(lambda a: torch.tanh({layer}(a)), {v})",
                lambda: f"torch.func.grad(lambda a: (a.sin() * {weight}).sum())({v})",
                lambda: f"torch.func.vmap({layer})({v})",
                lambda: f"torch.func.functional_call({layer}, {{'weight': {layer}.weight * 2, 'bias': {layer}.bias}}, ({v},))",
                lambda: f"torch.func.jvp(torch.tanh, ({v},), ({v}.cos(),))[1]",
                lambda: f"torch.func.vmap(lambda a, w: a * w, in_dims=(-1, 0), out_dims=-1)({v}, {weight})",
                lambda: f"torch.utils.checkpoint.checkpoint({layer}, {v}, use_reentrant=False)",
                lambda: f"torch.autocast('cpu', torch.bfloat16)({layer}.forward)({v}).to({v}.dtype)",
                lambda: f"torch.no_grad()({layer})({v})",
                lambda: f"torch.enable_grad()({layer}.__call__)({v}).detach()",
                lambda: f"{layer}({v}.double().to({v}.dtype))",
                lambda: f"{layer}.to({v}.dtype)({v})",
                lambda: f"F.linear({v}, {layer}.weight.data, {layer}.bias.detach())",
                lambda: f"F.linear({v}, {layer}.weight.T, {weight})",
                lambda: f"{layer}.forward({v})",
                lambda: f"F.linear({v}.double(), {layer}.weight.double()).to({v}.dtype)",
                lambda: f"parts.exactly({p.part(f'nn.Linear({d}, {d}).double().requires_grad_(False)')}, {v})",
                lambda: f"nn.Linear.forward({layer}, {v})",
                lambda: f"getattr({layer}, 'forward')(input={v})",
                lambda: f"{p.part(f'nn.utils.parametrizations.weight_norm(nn.Linear({d}, {d}))')}({v})",
                lambda: f"{p.part(f'nn.utils.parametrizations.spectral_norm(nn.Linear({d}, {d})).eval()')}({v})",
                lambda: f"{p.part(f'parts.squared(nn.Linear({d}, {d}))')}({v})",
                lambda: f"{p.part(f'parts.pruned(nn.Linear({d}, {d}))')}({v})",
                lambda: f"{p.part(f'parts.Own({d}, {d})')}({v})",
            ]
        )(),
        s,
    )


def lists(p: Program, v: str, s: Shape) -> None:
    d = s[-1]
    several = p.part(f"nn.ParameterList([0.3 * torch.randn({d}) for _ in range(3)])")
    named = p.part(f"nn.ParameterDict({{'a': 0.3 * torch.randn({d}), 'b': nn.Parameter(torch.ones(1))}})")
    p.value(
        p.r.choice(
            [
                lambda: f"{v} * sum({several})",
                lambda: f"{v} + {several}[1] * {several}[-1]",
                lambda: f"{v} @ torch.stack(list({several})).T @ torch.stack(list({several}))",
                lambda: f"{v} * {named}['a'] + {named}['b']",
                lambda: f"sum({v} * value for value in {named}.values())",
            ]
        )(),
        s,
    )


def shared(p: Program, v: str, s: Shape) -> None:
    """Weights that layers of other kinds use again."""
    for name, inputs, outputs in p.linear:
        if len(s) == 3 and inputs == s[0]:
            return p.value(f"F.conv2d({v}, {name}.weight[:, :, None, None])", (outputs, *s[1:]))
        if len(s) == 2 and inputs == s[0]:
            return p.value(f"F.conv1d({v}, {name}.weight[:, :, None])", (outputs, s[1]))
        if s[-1] == inputs:
            return p.value(f"F.embedding(parts.places({v}, {outputs}), {name}.weight)", (*s, inputs))
    return linear(p, v, s)


MORE: tuple[Rule, ...] = (
    *RULES, transposed, dilated, images, images, norms, norms, attention, attention, sequences, sequences, tables, tables,
    products, products, products, spectra, indices, indices, indices, python, python, functions, functions, functions, lists,
    shared,
)  # fmt: skip
