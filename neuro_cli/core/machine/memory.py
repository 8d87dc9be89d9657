"""Memory: how much is free, and what the C library would hand back to the system, which a run keeps.

Activations of some megabytes come and go with every layer. glibc gives them back each time, and the next layer meets fresh
pages, which the system clears one by one; that can be a third of the time of a forward pass of many members.
"""

import ctypes
import gc
import logging
import sys
from pathlib import Path

log = logging.getLogger(__name__)

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")

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


def free_memory(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> float | None:
    """Free bytes of the system, or fewer where this process's control groups limit them; None: unknown."""
    found = [*_of_system(meminfo), *_of_groups(cgroup)]
    return min(found, default=None)


def _of_system(meminfo: Path) -> list[float]:
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    return [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]


def _of_groups(root: Path) -> list[float]:
    """Free bytes of control groups: version 2, from this process's group up to the root, then version 1 as in a container."""
    own = Path("/proc/self/cgroup")
    names = [line.partition("::")[2] for line in own.read_text().splitlines() if line.startswith("0::")] if own.exists() else []
    folders = [root / part for name in names for part in (Path(name.strip("/")), *Path(name.strip("/")).parents)]
    pairs = [(folder / "memory.max", folder / "memory.current") for folder in folders or [root]]
    pairs.append((root / "memory/memory.limit_in_bytes", root / "memory/memory.usage_in_bytes"))
    left = []
    for limit, used in pairs:
        try:
            left.append(max(0.0, float(limit.read_text()) - float(used.read_text())))
        except (OSError, ValueError):  # not there, or no limit: the word max
            continue
    return left
