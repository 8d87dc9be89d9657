"""Passes that replay recorded calls give the bits of passes that run the module, and step aside where Python reads numbers."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise import clean_pass

cross_entropy = partial(F.cross_entropy, reduction="none")


class Branches(nn.Module):
    """Answers by a number of its examples, read in Python: ``how``."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.first, self.last, self.how = nn.Linear(6, 6), nn.Linear(6, 3), how

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.how == "bool":
            scale = 2.0 if hidden.sum() > 0 else 0.5
        elif self.how == "item":
            scale = hidden.abs().max().item()
        elif self.how == "numpy":
            scale = float(hidden.detach().numpy().std())
        else:
            scale = len(hidden.nonzero()) / hidden.numel()
        return self.last(torch.tanh(hidden * scale))


class Shapes(nn.Module):
    """Reads sizes, writes into a view, splits and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.first(x).view(len(x), 2, -1).unbind(1)
        assert left.shape == right.shape
        return self.last(torch.cat([left.relu(), right.sigmoid()], -1) / x.size(-1))


MODELS = {
    "chain": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
    "norm": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
    "shapes": Shapes,
    **{how: partial(Branches, how) for how in ("bool", "item", "numpy", "count")},
}


@pytest.mark.parametrize("control_variates", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_replayed_and_complete_passes_have_the_same_gradients(name, control_variates, monkeypatch):
    generator = torch.Generator().manual_seed(3)
    inputs, targets = torch.randn(12, 6, generator=generator), torch.randint(3, (12,), generator=generator)

    def gradients() -> Tensor:
        torch.manual_seed(5)
        model = MODELS[name]()
        estimate = neuro.ForwardGradient(model, draws=2, seed=4, control_variates=control_variates, threads=1)
        for _ in range(2):
            estimate.backward(cross_entropy, inputs, targets)
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    replayed = gradients()
    monkeypatch.setattr(clean_pass, "replayable", lambda calls: False)
    assert torch.equal(replayed, gradients())
