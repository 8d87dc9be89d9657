"""Checks that this machine has cores and memory for the ranks that a command asks for."""

import logging
import os
from pathlib import Path

from neuro_cli.core.errors import ConfigError
from neuro_cli.runner.build import make_model
from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

RANK_BYTES = 350e6  # bytes of Python, torch, numba and MPI, without a model
MANY = 4  # ranks per core, beyond which a line warns that they wait for each other
CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def check_room(ranks: int, options: Options) -> None:
    """Warn of too many ranks for the cores. Raises ConfigError where memory cannot hold them."""
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


def _model_bytes(options: Options) -> float:
    """Bytes of the centre, its gradient or momentum, and one candidate per thread; an ensemble's rank has only its members."""
    if options.is_ensemble:
        return 0.0
    parameters = sum(parameter.numel() for parameter in make_model(options.plain).parameters())
    return 4.0 * parameters * (2 + (options.config.threads or 1))
