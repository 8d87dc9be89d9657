"""Tensors in pages that copies of a module and processes of a machine share; the kernel copies a page on a write.

The pages are an anonymous file (memfd): it has no name that a killed process could leave behind, and /dev/shm does not bound it.
It ends with its last mapping.
"""

import mmap
import os
from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Self
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor

ALIGNED = 64  # bytes: tensors begin at their multiples


class Part(NamedTuple):
    """Tensor in shared pages: its type, shape and first byte."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return prod(self.shape)


class Pages:
    """Numbers of some tensors, each :meth:`views` of them private: writes to one are not seen by another.

    ``parts`` describe them; ``file`` is an open descriptor, which this object closes. Raises OSError where the system has none.
    """

    def __init__(self, parts: Sequence[Part], file: int) -> None:
        self.parts, self.file = tuple(parts), file
        self._cast: WeakValueDictionary[torch.dtype, Pages] = WeakValueDictionary()

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> Self:
        """Copy ``tensors`` into new pages. Raises OSError."""
        if not hasattr(os, "memfd_create"):
            raise OSError("this system has no anonymous files")
        parts = parts_of(tensors)
        pages = cls(parts, os.memfd_create("neuro-frozen"))
        os.ftruncate(pages.file, end(parts))
        for view, tensor in zip(pages._mapped(mmap.MAP_SHARED), tensors, strict=True):
            view.copy_(tensor.detach())
        return pages

    def views(self) -> list[Tensor]:
        """Return the tensors in a new private mapping of the pages."""
        return self._mapped(mmap.MAP_PRIVATE)

    def cast(self, dtype: torch.dtype) -> "Pages":
        """Return the same with floating-point numbers rounded to ``dtype``, the same pages as long as somebody keeps them."""
        if all(part.dtype == dtype or not part.dtype.is_floating_point for part in self.parts):
            return self
        pages = self._cast.get(dtype)
        if pages is None:
            pages = Pages.of([view.to(dtype) if view.is_floating_point() else view for view in self.views()])
            self._cast[dtype] = pages
        return pages

    def _mapped(self, kind: int) -> list[Tensor]:
        memory = mmap.mmap(self.file, end(self.parts), flags=kind, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        whole = torch.frombuffer(memory, dtype=torch.uint8)
        return [
            whole[part.start : part.start + part.size * part.dtype.itemsize].view(part.dtype).view(part.shape)
            for part in self.parts
        ]

    def __del__(self) -> None:
        os.close(self.file)


def unwritten(view: Tensor) -> bool:
    """Return whether nothing was written to a private view's pages; False also where the system does not say.

    A page that was written to is anonymous memory, no longer the file's: bit 61 of its entry in Linux's pagemap is clear.
    """
    first, last = view.data_ptr() // mmap.PAGESIZE, (view.data_ptr() + view.nbytes - 1) // mmap.PAGESIZE
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(8 * first)
            entries = np.frombuffer(file.read(8 * (last - first + 1)), np.uint64)
    except OSError:
        return False
    in_use = entries >> np.uint64(62) != 0  # bit 63: in memory; bit 62: swapped
    return len(entries) == last - first + 1 and bool((entries[in_use] >> np.uint64(61) & np.uint64(1)).all())


def parts_of(tensors: Sequence[Tensor]) -> list[Part]:
    """Return the places of ``tensors`` in pages, one after the other."""
    parts: list[Part] = []
    for tensor in tensors:
        start = -(-end(parts) // ALIGNED) * ALIGNED
        parts.append(Part(tensor.dtype, tuple(tensor.shape), start))
    return parts


def end(parts: Sequence[Part]) -> int:
    """Return the first byte of the pages after all ``parts``."""
    return parts[-1].start + parts[-1].size * parts[-1].dtype.itemsize if parts else 0
