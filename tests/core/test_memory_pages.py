"""Tensors in shared pages: private to each copy, in any type, gone with their last user."""

import os

import pytest
import torch
from torch import nn

from neuro_cli.core.machine.pages import Pages, unwritten
from neuro_cli.core.module.copies import copied, in_pages


def tensors() -> list[torch.Tensor]:
    return [torch.arange(7.0), torch.tensor(True), torch.randn(3, 5).bfloat16(), torch.empty(0), torch.arange(4).view(2, 2)]


def test_each_view_has_the_numbers_and_its_own_writes():
    pages = Pages.of(tensors()[:2] + tensors()[4:])
    first, second = pages.views(), pages.views()
    first[0].add_(1)
    first[2].zero_()
    for view, wanted in zip(second, tensors()[:2] + tensors()[4:], strict=True):
        assert torch.equal(view, wanted)
        assert view.dtype == wanted.dtype
    assert first[0].tolist() == list(range(1, 8))


def test_numbers_are_rounded_once_and_as_long_as_they_are_used():
    pages = Pages.of(tensors()[4:] + tensors()[:1])
    half = pages.cast(torch.bfloat16)
    assert pages.cast(torch.bfloat16) is half
    assert [view.dtype for view in half.views()] == [torch.int64, torch.bfloat16]
    assert half.cast(torch.bfloat16) is half
    files = len(os.listdir("/proc/self/fd"))
    del half
    assert len(os.listdir("/proc/self/fd")) == files - 1


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_copies_of_a_module_lie_in_the_same_pages_until_one_is_written_to(dtype):
    module = nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2))
    frozen = [module[0].weight, module[0].bias]
    before = [parameter.detach().clone() for parameter in frozen]
    in_pages(frozen, Pages.of(frozen))
    made, other = copied(copied(module, dtype), dtype), copied(module, dtype)
    assert made[0].weight is not module[0].weight
    assert not made[0].weight.requires_grad
    made[0].weight.zero_()
    for parameter, copy, wanted in zip(frozen, other[0].parameters(), before, strict=True):
        assert torch.equal(parameter, wanted)
        assert torch.equal(copy, wanted.to(dtype or torch.float32))
    assert torch.equal(made[1].weight, module[1].weight)


def test_a_write_to_one_view_is_seen_without_reading_it():
    pages = Pages.of([torch.zeros(5000), torch.ones(5000)])
    first, second = pages.views()
    assert first.sum() + second.sum() == 5000  # pages that were read, too, are the file's
    assert unwritten(first)
    first.numpy()[-1] = 1  # an array's write, of which torch knows nothing
    assert not unwritten(first)
    assert unwritten(second[2000:])
    assert all(unwritten(view) for view in pages.views())
    assert not unwritten(torch.ones(5000))  # memory of its own
