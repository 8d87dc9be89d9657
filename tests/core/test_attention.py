"""Attention of small heads is torch's, by loops where they serve, and a head's bits depend on no other."""

from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from draws import close, normal

from neuro_cli.core import rows
from neuro_cli.core.kernels import attention as kernels

QUERY, KEY, VALUE = normal(3, 2, 19, 8), normal(3, 2, 23, 8, seed=2), normal(3, 2, 23, 5, seed=3)
LARGE = normal(1, 1, 3, rows.HEAD + 1)


def calls(*given: object, **named: object) -> int:
    """Compare with torch in float64; how often the loops were called."""
    with mock.patch.object(rows.attention_kernels, "attended", side_effect=kernels.attended) as loop:
        made = rows.attention(*given, **named)
    exact = [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in given]
    close(made, F.scaled_dot_product_attention(*exact, **named))
    return loop.call_count


@pytest.mark.parametrize("named", [{}, {"is_causal": True}, {"scale": 0.1}])
def test_small_heads_go_by_loops(named):
    assert calls(QUERY, KEY, VALUE, **named) == 1


@pytest.mark.parametrize(
    "given",
    [
        (QUERY, KEY, VALUE, torch.arange(23).expand(19, 23) > 3),
        (QUERY, KEY, VALUE, normal(19, 23)),
        (QUERY[0], KEY[0], VALUE[0]),
        (QUERY, KEY[:1], VALUE[:1]),
        (QUERY.mT.contiguous().mT, KEY, VALUE),
        (LARGE, LARGE, LARGE),
        (QUERY.double(), KEY.double(), VALUE.double()),
    ],
    ids=["mask", "float_mask", "three_dimensions", "one_for_all", "positions_last", "large", "float64"],
)
def test_whatever_else_goes_by_torch(given):
    assert calls(*given) == 0


def test_transformers_names_all_that_is_optional():
    named = {"attn_mask": None, "dropout_p": 0.0, "scale": 0.1, "is_causal": True}
    assert calls(QUERY, KEY, VALUE, **named) == 1
    assert calls(LARGE, LARGE, LARGE, **named) == 0


def test_a_number_that_is_none_reaches_what_reads_it_alone():
    query, value = QUERY.clone(), VALUE.clone()
    query[1, 0, 4, 2], value[2, 1, 7, 3] = float("nan"), float("inf")
    made = rows.attention(query, KEY, value)
    lost = ~made.isfinite()
    assert lost[1, 0, 4].all()
    assert lost[2, 1, :, 3].all()
    assert lost.sum() == 5 + 19


def test_scores_far_apart_neither_overflow_nor_lose_the_largest():
    query, key = torch.full((1, 1, 1, 1), 1e4), torch.tensor([-1e4, 0.0, 1e4]).view(1, 1, 3, 1)
    made = rows.attention(query, key, torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1))
    assert made.item() == 3.0


def test_bits_of_a_head_do_not_depend_on_others():
    whole = rows.attention(QUERY, KEY, VALUE, is_causal=True)
    alone = rows.attention(QUERY[1:2, 1:].clone(), KEY[1:2, 1:].clone(), VALUE[1:2, 1:].clone(), is_causal=True)
    assert torch.equal(whole[1:2, 1:], alone)
