"""Cross-entropy of many members' rows: torch's numbers by one loop, and torch itself wherever the loop does not serve."""

import pytest
import torch
import torch.nn.functional as F
from test_chains import plain
from test_small import evolution, share_passes
from torch import Tensor, nn

from neuro_cli.core.rows import layer_norm
from neuro_cli.scoring.passes import losses, mapped, perturbed
from neuro_cli.scoring.passes.losses import cross_entropy


def logits(*shape: int) -> Tensor:
    return 4 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def targets(classes: int, *shape: int) -> Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("classes", [1, 2, 4, 8, 10, 33, 1000])
@pytest.mark.parametrize("count", [1, 16, 37])
def test_rows_have_torchs_numbers(classes, count):
    x, y = logits(count, classes), targets(classes, count)
    made = cross_entropy(x, y, reduction="none")
    torch.testing.assert_close(made.double(), F.cross_entropy(x.double(), y, reduction="none"), rtol=1e-5, atol=4e-6)


@pytest.mark.parametrize("offset", [0.0, 100.0, -1e4])
@pytest.mark.parametrize("classes", [10, 50_257])
def test_logits_far_from_zero_and_many_classes_lose_no_digits(classes, offset):
    x, y = logits(20, classes) + offset, targets(classes, 20)
    made = cross_entropy(x, y, reduction="none")
    torch.testing.assert_close(made.double(), F.cross_entropy(x.double(), y, reduction="none"), rtol=3e-7, atol=3e-7)


def test_places_behind_the_classes_and_ignored_targets():
    x, y = logits(3, 5, 7, 11), targets(11, 3, 5, 7)
    y[1, 2] = 4
    made = cross_entropy(x.movedim(-1, 1), y, ignore_index=4, reduction="none")
    torch.testing.assert_close(made, F.cross_entropy(x.movedim(-1, 1), y, ignore_index=4, reduction="none"))


def test_what_is_no_number_stays_none():
    x, y = logits(6, 3), torch.tensor([0, 1, 2, 0, 1, 1])
    inf, nan = torch.inf, torch.nan
    x[0, 1], x[1], x[2, 0], x[3, 1], x[4, 1] = nan, -inf, inf, -inf, -inf
    x[5] = torch.tensor([200.0, -200.0, 0.0])
    torch.testing.assert_close(cross_entropy(x, y, reduction="none"), F.cross_entropy(x, y, reduction="none"), equal_nan=True)


def test_a_row_has_the_same_bits_wherever_it_lies():
    x, y = logits(40, 10), targets(10, 40)
    together = cross_entropy(x, y, reduction="none")
    assert torch.equal(together[5:9], cross_entropy(x[5:9], y[5:9], reduction="none"))


X, Y = logits(4, 3), targets(3, 4)


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        (X, Y, {"reduction": "mean"}), (X, Y, {"reduction": "sum"}),
        (X, Y, {"weight": torch.ones(3)}), (X, Y, {"label_smoothing": 0.1}), (X, Y, {"ignore_index": None}),
        (X, Y, {"reduce": False}), (X.double(), Y, {}), (X, X.softmax(1), {}), (X[0], Y[0], {}), (logits(3, 4).T, Y, {}),
        (logits(2, 3, 4), targets(3, 2, 4), {}), (X.clone().requires_grad_(), Y, {}), (X, Y + 3, {}), (X, Y[:2], {}),
        (torch.empty(0, 3), Y[:0], {}),
    ],
)  # fmt: skip
def test_torch_serves_the_rest(x, y, options):
    assert cross_entropy(x, y, **{"reduction": "none"} | options) is NotImplemented


def negative_cross_entropy(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return -F.cross_entropy(member(x), y.argmax(1), reduction="none")


@pytest.fixture
def served(monkeypatch) -> list[bool]:
    """For each call within the two passes: the loop served."""
    seen = []

    def noted(*args: object, **options: object) -> object:
        made = cross_entropy(*args, **options)
        seen.append(made is not NotImplemented)
        return made

    for module in (losses, mapped, perturbed):
        monkeypatch.setattr(module, "cross_entropy", noted)
    return seen


class Shifted(nn.Module):
    """Its bare parameter is served by the mapped pass alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.shift = nn.Linear(6, 3), nn.Parameter(torch.ones(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.shift.sum(0)


@pytest.mark.parametrize("module", [plain, Shifted])
def test_members_have_the_scores_of_single_ones(module, served):
    es = evolution(module(), 12)
    es.step(negative_cross_entropy, *es.data)
    assert served
    assert all(served)
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
