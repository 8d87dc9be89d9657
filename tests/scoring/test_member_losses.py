"""Cross-entropies and layer norms of many members' rows."""

import pytest
import torch
import torch.nn.functional as F
from test_chains import plain
from test_small import evolution, share_passes
from torch import Tensor, nn

from neuro_cli.core.rows import layer_norm


def logits(*shape: int) -> Tensor:
    return 4 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def negative_cross_entropy(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return -F.cross_entropy(member(x), y.argmax(1), reduction="none")


class Shifted(nn.Module):
    """Its bare parameter is served by the mapped pass alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.shift = nn.Linear(6, 3), nn.Parameter(torch.ones(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.shift.sum(0)


@pytest.mark.parametrize("module", [plain, Shifted])
def test_members_have_the_scores_of_single_ones(module):
    es = evolution(module(), 12)
    es.step(negative_cross_entropy, *es.data)
    share_passes(es)


def test_layer_norms_of_numbers_whose_squares_overflow_are_no_numbers():
    """As torch's: a diverged member has no ordinary score."""
    x, weight, bias = 1e25 * logits(2, 3, 8), torch.ones(2, 8), torch.zeros(2, 8)
    x[0, 0] = 1.0
    made = layer_norm(x, weight, bias, 1e-5)
    torch.testing.assert_close(made, F.layer_norm(x, (8,)), equal_nan=True)
    assert made[1].isnan().all()
    assert not made[0, 0].any()


def test_a_target_that_is_no_class_is_torchs_error():
    es = evolution(plain(), 12)
    with pytest.raises(IndexError, match="out of bounds"):
        es.step(lambda member, x, _: -F.cross_entropy(member(x), torch.full((len(x),), 3), reduction="none"), *es.data)
