"""Random chains: linear layers and activations in a Sequential, with what stops or changes one, and batches at their edges."""

import torch
from random_programs.program import Program


class Chains(Program):
    """Program whose parts are mostly linear layers and activations in a Sequential."""

    COUNTS = (7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65)

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ())
        r = self.r
        self.kind, self.made, self.called = "vector", [], []
        points = r.choice([(), (), (), (1,), (2,), (3,), (2, 2)])
        width = first = r.choice([1, 3, 4, 8, 16, 17])
        self.shape = (*points, width)
        layers: list[str] = []
        for _ in range(r.randint(2, 7)):
            kind = r.choice(["linear"] * 4 + ["act"] * 3 + ["other"])
            if kind == "linear":
                size = r.choice([1, 3, 8, 15, 16, 17, 33, width])
                bias = r.random() < 0.7
                layers.append(
                    r.choice(
                        [f"nn.Linear({width}, {size}, bias={bias})"] * 8
                        + [f"parts.Own({width}, {size})", f"nn.utils.parametrizations.weight_norm(nn.Linear({width}, {size}))"]
                        + [f"parts.squared(nn.Linear({width}, {size}))", f"nn.Linear({width}, {size}).requires_grad_(False)"]
                        + [f"parts.half_frozen(nn.Linear({width}, {size}))", f"parts.hooked(nn.Linear({width}, {size}))"]
                        + [f"parts.prehooked(nn.Linear({width}, {size}))", f"parts.own_call(nn.Linear({width}, {size}))"]
                        + [f"parts.of_zeros(nn.Linear({width}, {size}))", f"parts.in_columns(nn.Linear({width}, {size}))"]
                        + [f"nn.Sequential(nn.Linear({width}, {size}), nn.Tanh())", f"parts.with_nan(nn.Linear({width}, {size}))"]
                        + [f"parts.doubling(nn.Linear({width}, {size}))"]
                    )
                )
                width = size
            elif kind == "act":
                layers.append(
                    r.choice(
                        ["nn.Tanh()", "nn.ReLU()"] * 2
                        + ["nn.ReLU(inplace=True)", "nn.ReLU6()", "parts.Tan()", "nn.LeakyReLU(0.1)"]
                        + ["parts.hooked(nn.Tanh())", "parts.hooked(nn.ReLU())"]
                    )
                )
            else:
                layers.append(
                    r.choice(["nn.Identity()", f"nn.LayerNorm({width})", "nn.Dropout(0.2)", "nn.GELU()", "nn.Softmax(-1)"])
                )
        layers.append(f"nn.Linear({width}, {first})" if r.random() < 0.3 else "nn.Tanh()")
        body = self.part(f"nn.Sequential({', '.join(layers)})")
        width = first if layers[-1].startswith("nn.Linear") else width
        if r.random() < 0.25 and width == first:
            body_of = [f"{body}({body}({{0}}))", f"{body}({{0}}) + {body}(-{{0}})", f"{body}({{0}}).tanh() * {body}({{0}})"]
        else:
            body_of = [f"{body}({{0}})"] * 4 + [
                f"{body}[1:]({body}[0]({{0}}))",
                f"parts.turned({body}, {{0}})",
                f"nn.Sequential(*{body})({{0}})",
            ]
        given = r.choice(
            ["x"] * 4
            + ["x.transpose(0, -1).contiguous().transpose(0, -1)", "x[:1].expand_as(x)", "x.flip(-1)", "x * 30", "x * 1e20"]
            + [
                "x.double().to(x.dtype)",
                "torch.where(x > 1.5, torch.inf, x)",
                "torch.where(x > 2.5, torch.nan, x)",
                "x.repeat(1, *[1] * (x.dim() - 1))",
            ]
            + ["x[:, None].expand(-1, 2, *x.shape[1:]).flatten(0, 1)", "x[None]", "x[0::1]", "x + 0 * x.mean()"]
        )
        after = {"x[None]": "[0]", "x[:, None].expand(-1, 2, *x.shape[1:]).flatten(0, 1)": ".unflatten(0, (len(x), 2))[:, 0]"}
        source = f"{given} {layers}"
        self.called.append(f"y = {r.choice(body_of).format(f'({given})')}{after.get(given, '')}")
        rest = 1
        for size in points:
            rest *= size
        head = self.part(f"nn.Linear({rest * width}, 3)")
        tail = ".nan_to_num(0.5, 2.0, -2.0).clamp(-3, 3)" if "nan" in source or "inf" in source else ""
        self.called.append(f"return {head}(y.flatten(1){tail})")
        self.counts = [(r.choice(self.COUNTS), r.choice([1.0, 0.1, 5.0])) for _ in range(4)]
        self.memory = r.choice(["plain", "plain", "columns", "expanded", "strided"])

    def placed(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` in another memory."""
        if self.memory == "columns":
            return x.transpose(0, -1).contiguous().transpose(0, -1)
        if self.memory == "expanded":
            return x[:1].expand_as(x)
        return torch.stack([x, x], -1)[..., 0] if self.memory == "strided" else x
