"""Whether this machine has room for the ranks that it is asked to start."""

import logging
import os
from pathlib import Path

from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.build import make_model
from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

RANK_BYTES = 350e6  # Python, torch, numba and MPI, before a model is made
MANY = 4  # ranks of a core, beyond which a line says that they wait for each other
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def check_room(ranks: int, options: Options) -> None:
    """Warn of more ranks than the cores serve well. Raises ConfigError where memory cannot hold them."""
    cores = len(os.sched_getaffinity(0))
    each = RANK_BYTES + _model_bytes(options)
    free = free_memory()
    if free is not None and ranks * each > free:
        most = max(1, int(free / each))
        allowed = f"they need about {ranks * each / 1e9:.1f} GB, {each / 1e6:.0f} MB each, and {free / 1e9:.1f} GB are free here"
        raise ConfigError("ranks", ranks, f"{allowed}: at most {most}")
    if ranks > MANY * cores:
        log.warning("ranks=%d on %d cores: they take turns, and wait for each other", ranks, cores)


def free_memory(cgroup: Path = CGROUP, meminfo: Path = MEMINFO) -> float | None:
    """Bytes that processes can still have: the system's, and what the control groups of this process leave; None: unknown."""
    found = [*_of_system(meminfo), *_of_groups(cgroup)]
    return min(found, default=None)


def _of_system(meminfo: Path) -> list[float]:
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    return [float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]


def _of_groups(root: Path) -> list[float]:
    """Version 2 of control groups, from this process's up to the root, then version 1, as a container shows its own."""
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


def _model_bytes(options: Options) -> float:
    """Of the centre, its gradient or momentum, and a candidate for every thread; of an ensemble each rank has its own part."""
    if options.is_ensemble:
        return 0.0
    parameters = sum(parameter.numel() for parameter in make_model(options.plain).parameters())
    return 4.0 * parameters * (2 + (options.config.threads or 1))
