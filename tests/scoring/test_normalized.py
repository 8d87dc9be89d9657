"""Batch norm's values by two passes over memory, against torch's own batch norm."""

import pytest
import torch
import torch.nn.functional as F

from neuro_cli.scoring.passes.operators import normalized


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("shape", [(5, 3), (6, 4, 7), (2, 5, 3, 4), (3, 2, 2, 3, 4)])
def test_values_are_those_of_batch_norm(shape, dtype, tolerance):
    torch.manual_seed(1)
    x = (torch.randn(shape, dtype=torch.float64) * 3 + 10).to(dtype)
    result = normalized(x, [0, *range(2, x.dim())], 1e-5)
    assert result.dtype == dtype
    torch.testing.assert_close(result, F.batch_norm(x, None, None, training=True), atol=tolerance, rtol=tolerance)


def test_far_mean_loses_no_digits():
    x = torch.randn(64, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 4096
    expected = F.batch_norm(x.float().double(), None, None, training=True)
    torch.testing.assert_close(normalized(x.float(), [0], 1e-5).double(), expected, atol=1e-3, rtol=1e-4)


def test_constant_channel_is_zero_and_nan_stays_in_its_channel():
    x = torch.randn(8, 3)
    x[:, 0], x[2, 1] = 7.0, torch.nan
    result = normalized(x, [0], 1e-5)
    assert not result[:, 0].any()
    assert result[:, 1].isnan().all()
    assert result[:, 2].isfinite().all()
