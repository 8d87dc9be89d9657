"""Numbers that tests of kernels draw, and how near a kernel comes to its definition."""

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def words(directions: int, count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2**32, (directions, count), generator=generator).to(torch.uint32)


def close(made: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(made.double(), wanted.double(), rtol=1e-4, atol=1e-4)
