"""A pass is tried in float64, then in the run's precision, which compiled loops serve alone."""

import pytest
import torch
from test_small import evolution, scorers, share_passes
from torch import Tensor, nn

from neuro_cli.sampler import dense
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes.outputs import rounds_alike


class Steps(nn.Module):
    """A layer of signs between two others: rounding flips some."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 64), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).sign())


@pytest.mark.parametrize("change", [1e-3, float("nan")])
def test_a_way_that_is_wrong_in_float32_alone_steps_aside(change, monkeypatch, caplog):
    own = dense.DensePerturbation.layer

    def layer(self, *given):
        made = own(self, *given)
        return made if made is None or made.dtype == torch.float64 else made + change

    monkeypatch.setattr(dense.DensePerturbation, "layer", layer)
    caplog.set_level("INFO")
    es = evolution(nn.Sequential(nn.Linear(6, 5), nn.Softplus(), nn.Linear(5, 3)), 5)
    assert type(scorers(es)[0]) is MemberScorer
    assert "do not give what single members give in torch.float32" in caplog.text


def test_signs_share_passes():
    share_passes(evolution(Steps(), 64))


def test_rounding_is_compared_with_that_of_single_members():
    exact = torch.linspace(1, 2, 40, dtype=torch.float64)[:, None]
    single, near = exact.float(), (exact * (1 + 1e-6)).float()
    assert rounds_alike(near, single, exact, torch.float32)
    assert not rounds_alike((exact * (1 + 1e-4)).float(), single, exact, torch.float32)
    assert rounds_alike((exact * (1 + 1e-4)).float(), near, exact, torch.float32)  # a network that enlarges rounding
    flipped = near.clone()
    flipped[7] = 5
    assert rounds_alike(flipped, single, exact, torch.float32)
    flipped[8:10] = float("nan")
    assert not rounds_alike(flipped, single, exact, torch.float32)
