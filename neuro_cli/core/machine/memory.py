"""Free memory, and memory that the C library would return to the system but a run keeps.

Activations of some megabytes come and go with every layer. glibc returns them each time, and the next layer gets fresh pages,
which the system clears one by one. That can be a third of the time of a forward pass of many members.
"""

import ctypes
import gc
import logging
import math
import sys
from pathlib import Path

from neuro_cli.core.machine.control_groups import ROOT, groups, numbers

log = logging.getLogger(__name__)

MEMINFO = Path("/proc/meminfo")

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt, from glibc's malloc.h


def keep_freed_memory() -> None:
    """Let freed memory stay with this process for its next tensor. Does nothing where the C library is not glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None or not (mallopt(_TRIM_THRESHOLD, 2**31 - 1) and mallopt(_MMAP_THRESHOLD, 2**30)):
        log.info("freed memory goes back to the system between layers (no glibc here)")


def give_back_memory() -> None:
    """Return free memory to the system, that of unreachable cycles included, after a failed allocation."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def free_memory(cgroup: Path = ROOT, meminfo: Path = MEMINFO) -> float | None:
    """Free bytes of the system, or fewer where this process's control groups limit them; None: unknown."""
    found = [*_of_system(meminfo), *_of_groups(cgroup)]
    return min(found, default=None)


def _of_system(meminfo: Path) -> list[float]:
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    return [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]


def _of_groups(root: Path) -> list[float]:
    """Free bytes of the control groups that limit this process; of those without a limit none."""
    left = []
    for folder in groups("memory", root):
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            both = numbers(folder / limit) + numbers(folder / used)
            if len(both) == 2 and math.isfinite(both[0]):
                left.append(max(0.0, both[0] - both[1]))
    return left
