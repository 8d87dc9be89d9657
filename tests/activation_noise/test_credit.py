"""Credit of tokens for noise that all tokens of an example share: all rewards count for it, once."""

import pytest
import torch
from torch import Tensor, nn

import neuro_cli as neuro


class Shared(nn.Module):
    """A layer of an example's mean, which all its tokens get, next to one of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.shared = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.own(x) + self.shared(x.mean(1))[:, None])


class Recurrent(nn.Module):
    """States, at whose noise each later token's reward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.GRU(3, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(x)[0]


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(2)


@pytest.mark.parametrize("credit", ["own", "following", "all"])
@pytest.mark.parametrize(("kind", "space"), [(Shared, "outputs"), (Shared, "weights"), (Recurrent, "outputs")])
def test_noise_that_tokens_share_counts_with_each_reward_once(kind, space, credit):
    """It counted T times with ``credit=all``, and an earlier token's reward less than a later one's with ``following``."""
    torch.manual_seed(2)
    model, x, targets = kind(), torch.randn(8, 6, 3), torch.randn(8, 6, 4)
    losses(model(x), targets).mean().backward()
    right = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    options = {"draws": 400, "sigma": 0.01, "control_variates": False, "threads": 1}
    neuro.ForwardGradient(model, correction="always", credit=credit, space=space, **options).backward(losses, x, targets)
    for (name, parameter), wanted in zip(model.named_parameters(), right, strict=True):
        if "shared" in name or "_hh_" in name or space == "weights":
            ratio = float((parameter.grad * wanted).sum() / wanted.square().sum())
            assert ratio == pytest.approx(1.0, abs=0.4), name
