"""Rounding in place: torch's bfloat16, bit by bit."""

import numpy as np
import torch

from neuro_cli.core.kernels import rounding


def test_numbers_are_those_of_torch():
    every = torch.arange(-(2**31), 2**31, 977, dtype=torch.int64).to(torch.int32)  # numbers of all kinds, and ties
    ties = (torch.arange(2**16, dtype=torch.int64) * 2**16 + 2**15 - 2**31).to(torch.int32)
    numbers = torch.cat([every, ties]).view(torch.float32)
    wanted = numbers.to(torch.bfloat16).float()
    rounding.to_bfloat16(numbers.numpy().view(np.uint32))
    assert torch.equal(numbers.isnan(), wanted.isnan())
    same = ~wanted.isnan()
    assert torch.equal(numbers[same].view(torch.int32), wanted[same].view(torch.int32))
