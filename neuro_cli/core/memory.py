"""Memory that the C library would hand back to the system: kept while a run lasts.

Activations of some megabytes come and go with every layer. glibc gives them back each time, and the next layer meets fresh
pages, which the system clears one by one; that can be a third of the time of a forward pass of many members.
"""

import ctypes
import gc
import logging
import sys

log = logging.getLogger(__name__)

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, from glibc's malloc.h


def keep_freed_memory() -> None:
    """Let freed memory stay with this process for its next tensor. Does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or not (mallopt(_TRIM_THRESHOLD, 2**31 - 1) and mallopt(_MMAP_THRESHOLD, 2**30)):
        log.info("freed memory goes back to the system between layers (no glibc here)")


def give_back_memory() -> None:
    """Hand what is free back to the system, what only cycles refer to included: after an allocation that failed."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
